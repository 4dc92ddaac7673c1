#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/jobs/job_view.h"
#include "cli/jobs/queue_access.h"
#include "cli/parsing/commands.h"
#include "cli/parsing/options.h"
#include "jobs/error.h"

/// Commands that change jobs and sweeps: cancel, pause, resume, retry, priority.
namespace foretime::cli {
namespace {

struct ControlOptions {
  QueueOptions queue;
  std::vector<std::string> ids;
  std::string id;  // of priority, which takes one
  int64_t priority = 0;
};

void cancel(const ControlOptions& options) {
  QueueAccess access(options.queue, Start::never);
  for (const auto& prefix : options.ids) {
    if (access.reader().is_sweep(prefix)) {
      const auto id = access.reader().resolve_sweep(prefix);
      fmt::print("sweep {}: {} jobs cancelled or asked to stop\n", id, access.queue().cancel_sweep(id));
      continue;
    }
    const auto id = access.reader().resolve_job(prefix);
    switch (access.queue().cancel(id)) {
      case jobs::CancelOutcome::cancelled:
        fmt::print("job {}: cancelled\n", id);
        break;
      case jobs::CancelOutcome::requested:
        fmt::print("job {}: runs; it ends after its next step, with a checkpoint\n", id);
        break;
      case jobs::CancelOutcome::already_final:
        fmt::print("job {}: had ended already\n", id);
        break;
    }
  }
}

/// Pausing acts on sweeps and on the whole queue; a job alone is cancelled and retried.
std::string sweep_to_pause(QueueAccess& access, const std::string& prefix, const char* verb) {
  if (access.reader().is_sweep(prefix)) return access.reader().resolve_sweep(prefix);
  throw jobs::JobRefused(
      "{} {}: job {} is no sweep; {} takes sweeps, or nothing for the whole queue "
      "(one job: foretime cancel, later foretime retry)",
      verb, prefix, access.reader().resolve_job(prefix), verb);
}

void pause(const ControlOptions& options, bool resume) {
  QueueAccess access(options.queue, Start::never);
  const char* verb = resume ? "resume" : "pause";
  std::vector<std::string> sweeps;
  for (const auto& prefix : options.ids) sweeps.push_back(sweep_to_pause(access, prefix, verb));
  if (sweeps.empty()) sweeps.emplace_back();
  for (const auto& sweep : sweeps) {
    resume ? access.queue().resume(sweep) : access.queue().pause(sweep);
    fmt::print("{}: {}\n", sweep.empty() ? "the queue" : "sweep " + sweep,
               resume ? "resumed" : "paused; jobs that run go on, no other is started");
  }
}

void retry(const ControlOptions& options) {
  QueueAccess access(options.queue, Start::never);
  for (const auto& prefix : options.ids) {
    if (!access.reader().is_sweep(prefix)) {
      const auto id = access.reader().resolve_job(prefix);
      access.queue().retry(id);
      fmt::print("job {}: waits again\n", id);
      continue;
    }
    const auto sweep = access.reader().resolve_sweep(prefix);
    auto left = access.reader().ids_of_sweep(sweep);
    int64_t count = 0;
    std::map<std::string, std::string> why;  // a job was refused
    // Those that were cancelled because of another come back with that one. One that needs a job which is retried after
    // it is refused, and its turn comes once more.
    for (bool any = true; std::exchange(any, false);) {
      std::vector<std::string> refused;
      for (const auto& job : access.reader().jobs(left)) {
        if (!is_final(job.state) || job.state == jobs::JobState::succeeded) continue;
        try {
          access.queue().retry(job.spec.id);
          ++count;
          any = true;
        } catch (const jobs::JobRefused& error) {
          refused.push_back(job.spec.id);
          why[job.spec.id] = error.what();
        }
      }
      left = std::move(refused);
    }
    for (const auto& id : left) fmt::print(stderr, "warning: {}\n", why.at(id));
    fmt::print("sweep {}: {} jobs wait again\n", sweep, count);
  }
}

void set_priority(const ControlOptions& options) {
  QueueAccess access(options.queue, Start::never);
  const auto& prefix = options.id;
  if (!access.reader().is_sweep(prefix)) {
    const auto id = access.reader().resolve_job(prefix);
    access.queue().set_priority(id, options.priority);
    fmt::print("job {}: priority {}\n", id, options.priority);
    return;
  }
  const auto sweep = access.reader().resolve_sweep(prefix);
  int64_t count = 0;
  for (const auto& job : access.reader().jobs(access.reader().ids_of_sweep(sweep))) {
    if (is_final(job.state)) continue;
    try {
      access.queue().set_priority(job.spec.id, options.priority);
      ++count;
    } catch (const jobs::JobRefused&) {
      // It has ended since it was read.
    }
  }
  fmt::print("sweep {}: {} jobs have priority {}\n", sweep, count, options.priority);
}

CLI::App* add(CLI::App& app, const char* name, const char* meaning, const std::shared_ptr<ControlOptions>& options,
              bool needs_id) {
  auto* command = app.add_subcommand(name, meaning);
  auto* ids = command->add_option("id", options->ids, "ids of jobs or sweeps; the first digits are enough");
  ids->type_name("ID");
  if (needs_id) ids->required();
  add_queue_options(*command, options->queue);
  return command;
}

}  // namespace

void add_control_commands(CLI::App& app) {
  auto options = std::make_shared<ControlOptions>();
  add(app, "cancel", "Cancel jobs, or all jobs of sweeps; those that run end after a checkpoint", options, true)
      ->callback([options] { cancel(*options); });
  add(app, "pause", "Start no more jobs of these sweeps; without an id, of the whole queue", options, false)
      ->callback([options] { pause(*options, false); });
  add(app, "resume", "Undo pause", options, false)->callback([options] { pause(*options, true); });
  add(app, "retry", "Let failed, dead and cancelled jobs wait again, or those of sweeps", options, true)
      ->callback([options] { retry(*options); });
  auto* priority = app.add_subcommand("priority", "Change the priority of a job, or of a sweep's jobs");
  needed_option(*priority, "id", options->id, "id of a job or sweep; the first digits are enough", "ID");
  checked_option(*priority, "priority", options->priority, "larger first",
                 CLI::Range(-jobs::Limits::kPriority, jobs::Limits::kPriority), "N")
      ->required();
  add_queue_options(*priority, options->queue);
  priority->footer("Example: foretime priority 3fa9 100; a negative one: foretime priority 3fa9 -- -100");
  priority->callback([options] { set_priority(*options); });
}

}  // namespace foretime::cli
