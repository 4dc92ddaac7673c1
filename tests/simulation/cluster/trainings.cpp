#include "tests/simulation/cluster/trainings.h"

#include <algorithm>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "coordinator/checkpoint_store.h"

namespace foretime::simulation {

void Trainings::start(const std::shared_ptr<Trial>& trial) {
  trial->process = env_.next_process();
  env_.node_of[trial->process] = trial->node;
  running_[trial->process] = trial;
  ++env_.report.attempts;
  env_.scheduler.start(trial->process, [this, trial] { train(*trial); });
}

void Trainings::end(Trial& trial, int code, int signal) {
  if (trial.exit) return;
  trial.exit = jobs::ExitStatus{code, signal};
  running_.erase(trial.process);
  if (trial.notify) trial.notify();
}

void Trainings::kill(const std::shared_ptr<Trial>& trial) {
  if (trial->exit) return;
  env_.scheduler.kill(trial->process);
  end(*trial, 137, 9);
}

void Trainings::kill_all_on(int64_t node) {
  const auto all = running_;
  for (const auto& [process, trial] : all) {
    if (trial->node == node) kill(trial);
  }
}

void Trainings::send(Trial& trial, jobs::ProgressMessage message) {
  trial.messages.push_back(std::move(message));
  if (trial.notify) trial.notify();
}

void Trainings::train(Trial& trial) {
  int code = 1;
  try {
    code = train_steps(trial);
  } catch (const StorageError& error) {
    trial.output += std::string(error.what()) + "\n";
    code = kStorage;
  } catch (const std::exception& error) {
    trial.output += std::string(error.what()) + "\n";
    code = exit_code_of(error);
    // The shared file system tells no lies about what is there: only its failures are allowed. Who is being killed sees
    // nothing any more.
    if (!env_.scheduler.dying()) env_.fail(fmt::format("{}: {}", trial.folder.string(), error.what()));
  }
  if (env_.scheduler.dying()) return;
  end(trial, code, 0);
}

/// Of the checkpoint that the agent told it to resume from; 0: there is none.
int64_t Trainings::last_step_before(const Trial& trial) {
  const auto yaml = env_.files.read(trial.folder / "config.yaml");
  const std::string key = "\n  resume: ";
  const auto at = yaml.find(key);
  const auto resume =
      at == std::string::npos ? "" : yaml.substr(at + key.size(), yaml.find('\n', at + 1) - at - key.size());
  if (resume.empty() || resume.front() != '/') return 0;
  // As the trainer does: an older attempt that lives yet, cut off from Redis, may remove this one just now.
  const auto found = coordinator::read_intact_checkpoint(resume, [this](const auto& what) { env_.trace(what); });
  if (found.files.at("job") != trial.job)
    env_.fail(fmt::format("{} resumes from {}, a checkpoint of {}", trial.job, resume, found.files.at("job")));
  return std::stoll(found.files.at("step"));
}

int Trainings::train_steps(Trial& trial) {
  using Kind = jobs::ProgressMessage::Kind;
  auto& plan = ledger_.plans.at(trial.job);
  pause(trial, env_.scheduler.fraction() * 5);
  trial.connected = true;
  send(trial, {.kind = Kind::hello});
  if (plan.bad) return kData;
  if (plan.kind == jobs::JobKind::export_) return write_export(trial);
  coordinator::CheckpointStore store(trial.folder / "checkpoints");
  const auto first = last_step_before(trial);
  env_.trace(fmt::format("{} trains from step {}", trial.folder.string(), first));
  const auto save = [&](int64_t step) {
    store.commit(step, {{"step", std::to_string(step)}, {"job", trial.job}, {"weights", std::string(64, 'w')}});
  };
  const bool crashes = ledger_.own_failures[trial.job] < plan.crashes;
  const auto crash_at = first + env_.scheduler.integer(0, std::max<int64_t>(plan.steps - first, 1));
  for (int64_t step = first + 1; step <= plan.steps; ++step) {
    pause(trial, plan.step_seconds);
    if (plan.deadly) {
      ++ledger_.own_failures[trial.job];
      env_.scheduler.at(env_.scheduler.now(), [this, node = trial.node] { take_down(node); });
      for (;;) pause(trial, 3600);
    }
    if (crashes && step >= crash_at) {
      ++ledger_.own_failures[trial.job];
      return env_.scheduler.chance(0.5) ? 1 : 139;
    }
    if (plan.hangs && step == plan.steps / 2 + 1) {
      plan.hangs = false;
      ++ledger_.own_failures[trial.job];
      for (;;) pause(trial, 3600);
    }
    send(trial, {.kind = Kind::progress, .step = step, .total_steps = plan.steps, .loss = 1});
    const bool stops = (trial.stop || trial.terminate) && !plan.deaf;
    if (step % plan.checkpoint_every == 0 || step == plan.steps || stops) {
      save(step);
      store.prune(2, false);
      send(trial, {.kind = Kind::evaluation,
                   .step = step,
                   .total_steps = plan.steps,
                   .iteration = step,
                   .metrics = {{kMetric, objective_at(trial.job, step)}}});
      send(trial, {.kind = Kind::checkpoint, .step = step, .path = store.folder(step).string()});
    }
    if (stops && step < plan.steps) return kPreempted;
  }
  if (first >= plan.steps) {  // as the trainer does: a checkpoint of its own, also where no step was left
    save(first);
    send(trial, {.kind = Kind::checkpoint, .step = first, .path = store.folder(first).string()});
  }
  send(trial, {.kind = Kind::result,
               .step = plan.steps,
               .total_steps = plan.steps,
               .metrics = {{kMetric, objective_at(trial.job, plan.steps)}}});
  return kSuccess;
}

int Trainings::write_export(Trial& trial) {
  const auto out = trial.folder / "export";
  auto aside = out;
  aside += kAsideSuffix;
  env_.files.create_folders(aside);
  pause(trial, 10);
  write_synced(aside / "model", "weights");
  write_synced(aside / "manifest.json", R"({"files": {"model": {"bytes": 7}}})");
  replace_folder(aside, out);
  send(trial, {.kind = jobs::ProgressMessage::Kind::result});
  return kSuccess;
}

void Trainings::pause(Trial& trial, double seconds) {
  env_.scheduler.sleep_until(env_.scheduler.now() + static_cast<Time>(seconds * kSecond));
  env_.thaw(trial.node);
}

}  // namespace foretime::simulation
