#include "tests/simulation/cluster.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "coordinator/checkpoint_store.h"
#include "jobs/agent/agent.h"
#include "jobs/error.h"
#include "jobs/queue/redis_queue.h"
#include "tests/jobs/queue/queue_backends.h"
#include "tests/simulation/model_connection.h"
#include "tests/simulation/network.h"
#include "tests/simulation/scheduler.h"
#include "tests/simulation/simulated_files.h"
#include "tests/simulation/weaknesses.h"

namespace foretime::simulation {
namespace {

using jobs::JobState;

constexpr int64_t kNodes = 3;
constexpr const char* kRunRoot = "/simulated/runs";
constexpr const char* kDataRoot = "/simulated/data";
constexpr const char* kMetric = "valid/kendall_tau";
constexpr double kLeaseTerm = 60;  // seconds

/// What a simulated training is made of; drawn once for each job, from its id.
struct Plan {
  jobs::JobKind kind = jobs::JobKind::train;
  int64_t steps = 10;
  double step_seconds = 60;
  int64_t checkpoint_every = 3;
  bool bad = false;     // ends with exit code 3 whenever it is tried
  int64_t crashes = 0;  // attempts that end by the job's own fault
  bool hangs = false;   // the first attempt shows no progress after a while
  bool deaf = false;    // does not listen to requests, nor to SIGTERM
  bool deadly = false;  // takes its whole node down with it, whenever it is tried
};

struct Broken {};  // ends a simulation; the message is in the report

class Cluster;

/// A training that pretends: steps that take time, real checkpoints, messages to its agent.
struct Trial {
  std::string job;
  std::filesystem::path folder;
  int64_t process = 0, node = 0;
  std::optional<jobs::ExitStatus> exit;
  std::deque<jobs::ProgressMessage> messages;
  std::string output;
  bool connected = false, stop = false, terminate = false, killed = false;
  std::function<void()> notify;  // the agent's loop; empty where the agent is gone
};

class SimulatedCommand final : public jobs::RunningCommand {
 public:
  SimulatedCommand(Cluster& cluster, std::shared_ptr<Trial> trial, double grace)
      : cluster_(cluster), trial_(std::move(trial)), grace_(grace) {}
  ~SimulatedCommand() override;
  void add_descriptors(std::vector<pollfd>&) const override {}
  std::optional<jobs::ExitStatus> poll_exit() override { return trial_->exit; }
  void read_output(bool, const Sink& output, const Sink&) override {
    if (!trial_->output.empty()) output(std::exchange(trial_->output, ""));
  }
  void receive(const std::function<void(const jobs::ProgressMessage&)>& message,
               const std::function<void(const std::string&)>&) override {
    while (!trial_->messages.empty()) {
      const auto first = std::move(trial_->messages.front());
      trial_->messages.pop_front();
      message(first);
    }
    if (trial_->exit) trial_->connected = false;
  }
  bool connected() const override { return trial_->connected; }
  void request_stop(const std::string&) override { trial_->stop = true; }
  void terminate() override;
  void kill() override;

 private:
  Cluster& cluster_;
  std::shared_ptr<Trial> trial_;
  double grace_;
};

class SimulatedBackground final : public jobs::Background {
 public:
  SimulatedBackground(Scheduler& scheduler, std::function<double()> step)
      : scheduler_(scheduler), state_(std::make_shared<State>()) {
    task_ = scheduler.start(scheduler.process(), [&scheduler, state = state_, step = std::move(step)] {
      while (!state->stop) {
        const double pause = step();
        if (state->stop) break;
        scheduler.wait(state.get(), scheduler.now() + static_cast<Time>(pause * kSecond));
      }
      state->ended = true;
      scheduler.wake(&state->ended);
    });
  }
  ~SimulatedBackground() override {
    state_->stop = true;
    scheduler_.wake(state_.get());
    try {
      while (!state_->ended && !scheduler_.dying()) scheduler_.wait(&state_->ended, INT64_MAX / 2);
    } catch (const Killed&) {
    }
    if (!state_->ended) scheduler_.end(task_);  // before what its step refers to
  }
  void wake() override { scheduler_.wake(state_.get()); }

 private:
  struct State {
    bool stop = false, ended = false;
  };
  Scheduler& scheduler_;
  std::shared_ptr<State> state_;
  int64_t task_ = 0;
};

/// One agent's process.
class SimulatedWorld final : public jobs::World {
 public:
  SimulatedWorld(Cluster& cluster, int64_t node) : cluster_(cluster), node_(node) {}
  double steady_seconds() override;
  uint64_t random_bits() override;
  std::unique_ptr<jobs::RunningCommand> start(jobs::SupervisedProcess::Options command,
                                              const std::filesystem::path& folder) override;
  std::unique_ptr<jobs::Background> run_beside(std::function<double()> step) override;
  std::unique_ptr<jobs::Waiter> make_waiter() override;
  void wake();

 private:
  class LoopWaiter;
  Cluster& cluster_;
  int64_t node_;
  bool woken_ = false;
};

struct AgentProcess {
  std::string name;
  int64_t process = 0, node = 0;
  std::unique_ptr<SimulatedWorld> world;
  jobs::Agent* agent = nullptr;  // while it runs
};

class Cluster {
 public:
  explicit Cluster(const ClusterOptions& options)
      : options_(options),
        scheduler(options.seed),
        redis(scheduler, scheduler.chance(0.5)),
        log_("simulation", make_sink(options.trace)) {
    log_.set_level(options.trace ? spdlog::level::info : spdlog::level::off);
  }

  ClusterReport run() {
    const FilesScope scope(files);
    files.create_folders(kRunRoot);
    files.create_folders(kDataRoot);
    write_file_atomically(std::filesystem::path(kDataRoot) / "C1.npz", "data");
    files.fail_by(
        [this](const char* operation, const auto& path, size_t bytes) { return file_fault(operation, path, bytes); });
    for (int i = 0; i < 2; ++i) files.lose_power([] { return SimulatedFiles::Fate::kept; });
    redis.changed = [this](const auto& call, const Answer& answer) {
      after_command();
      check_writer(call, answer);
    };
    for (const auto& [name, script] : jobs::load_scripts(jobs::QueueClock::redis)) scripts_[script.sha1] = name;
    if (!options_.weakness.empty()) {
      const auto& weakness = weakness_named(options_.weakness);
      redis.model().edit_script = [this, &weakness](std::string script) {
        return weakened(weakness, std::move(script), weakened_);
      };
      if (weakness.files_unsynced) files.forget_syncs(), ++weakened_;
    }
    choose_faults();
    for (int64_t node = 0; node < kNodes; ++node) start_agent(node);
    scheduler.start(next_process(), [this] { submit_jobs(); });
    scheduler.start(next_process(), [this] { submit_sweeps(); });
    scheduler.start(next_process(), [this] { look_after_jobs(); });
    scheduler.at(kMinute, [this] { housekeeping(); });
    plan_next_fault();
    const auto end = static_cast<Time>(options_.hours * kHour);
    try {
      scheduler.run_until(end);
      heal();
      for (int hour = 0; hour < 48 && !all_ended(); ++hour) scheduler.run_until(scheduler.now() + kHour);
      if (!all_ended()) say_what_is_left();
      check();
      check_results();
    } catch (const Broken&) {
    }
    report_.hours = static_cast<double>(scheduler.now()) / kHour;
    report_.steps = scheduler.steps();
    report_.commands = redis.model().commands();
    scheduler_stops();
    if (!options_.weakness.empty() && weakened_ == 0)
      throw std::logic_error("weakness " + options_.weakness + " finds nothing to change in the scripts");
    return report_;
  }

  const ClusterOptions options_;
  Scheduler scheduler;
  SimulatedRedis redis;
  SimulatedFiles files;
  std::map<int64_t, Time> frozen_until;  // by node

  int64_t next_process() { return ++processes_; }
  void trace(const std::string& what) {
    if (options_.trace) fmt::print(stderr, "{:12.3f} {}\n", static_cast<double>(scheduler.now()) / kSecond, what);
  }

  [[noreturn]] void fail(const std::string& what) {
    report_.broken.push_back(fmt::format("at {:.3f} s: {}", static_cast<double>(scheduler.now()) / kSecond, what));
    trace("BROKEN: " + what);
    throw Broken();
  }

  /// Of a task on a node: a machine that stands still (a virtual machine that is moved) goes on later.
  void thaw(int64_t node) {
    while (frozen_until[node] > scheduler.now()) scheduler.sleep_until(frozen_until[node]);
  }

  void start_trial(const std::shared_ptr<Trial>& trial) {
    trial->process = next_process();
    node_of_[trial->process] = trial->node;
    running_[trial->process] = trial;
    ++report_.attempts;
    scheduler.start(trial->process, [this, trial] { train(*trial); });
  }
  void end_trial(Trial& trial, int code, int signal) {
    if (trial.exit) return;
    trial.exit = jobs::ExitStatus{code, signal};
    running_.erase(trial.process);
    if (trial.notify) trial.notify();
  }
  void kill_trial(const std::shared_ptr<Trial>& trial) {
    if (trial->exit) return;
    scheduler.kill(trial->process);
    end_trial(*trial, 137, 9);
  }

 private:
  struct Fault {
    const char* kind;
    std::function<void()> begin;
  };

  static std::shared_ptr<spdlog::sinks::sink> make_sink(bool trace) {
    if (trace) return std::make_shared<spdlog::sinks::stderr_sink_st>();
    return std::make_shared<spdlog::sinks::null_sink_st>();
  }

  // ---- Agents and clients

  jobs::AgentOptions agent_options(const std::string& name) const {
    jobs::AgentOptions options;
    options.name = name;
    options.cpus = 2;
    options.roots.data = {kDataRoot};
    options.roots.runs = kRunRoot;
    options.program = "/simulated/foretime";
    options.lease_term = jobs::Milliseconds(static_cast<int64_t>(kLeaseTerm * 1000));
    return options;
  }

  jobs::QueueSettings queue_settings() const {
    return {.backoff_base = jobs::Milliseconds(10'000), .keep_finished = jobs::Milliseconds(6 * 3600 * 1000)};
  }

  /// Client and queue in one, with a connection of their own.
  struct Client {
    Client(Cluster& cluster, int64_t node, std::function<void()> notify)
        : client(url()), queue(client, cluster.queue_settings()) {
      client.connect_by([&cluster, node, notify = std::move(notify)](const jobs::RedisUrl&) {
        return cluster.redis.connect(node, notify);
      });
    }
    static jobs::RedisUrl url() {
      jobs::RedisUrl url;
      url.host = "simulated";
      return url;
    }
    jobs::RedisClient client;
    jobs::RedisQueue queue;
  };

  void start_agent(int64_t node) {
    auto& slot = agents_[node];
    slot = std::make_shared<AgentProcess>();
    slot->name = fmt::format("node{}.{}", node, ++incarnations_);
    slot->node = node;
    slot->process = next_process();
    slot->world = std::make_unique<SimulatedWorld>(*this, node);
    node_of_[slot->process] = node;
    disturbed(0);
    scheduler.start(slot->process, [this, slot] {
      const auto make_queue = [this, slot]() -> std::shared_ptr<jobs::JobQueue> {
        const auto client = std::make_shared<Client>(*this, slot->node, [world = slot->world.get()] { world->wake(); });
        return {client, &client->queue};
      };
      try {
        jobs::Agent agent(agent_options(slot->name), make_queue, {}, log_, *slot->world);
        slot->agent = &agent;
        agent.run();
        slot->agent = nullptr;
        trace(slot->name + " has ended");
      } catch (const std::exception& error) {
        slot->agent = nullptr;
        if (scheduler.dying()) return;
        // An agent may fail to start where its folder or its Redis is in trouble; a service manager starts it again.
        trace(fmt::format("{} ends: {}", slot->name, error.what()));
        if (!in_trouble()) fail(fmt::format("{} ended without cause: {}", slot->name, error.what()));
      }
      scheduler.at(scheduler.now() + scheduler.integer(1, 120) * kSecond, [this, slot] {
        if (agents_[slot->node] == slot) start_agent(slot->node);
      });
    });
  }

  void kill_agent(int64_t node, bool with_trials) {
    const auto slot = agents_[node];
    if (!slot || scheduler.now() < frozen_until[node]) return;
    ++report_.agents_killed;
    disturbed(0);
    trace(fmt::format("kill -9 {}", slot->name));
    scheduler.kill(slot->process);
    slot->agent = nullptr;
    if (with_trials) {
      const auto all = running_;
      for (const auto& [process, trial] : all) {
        if (trial->node == node) kill_trial(trial);
      }
    }
    scheduler.at(scheduler.now() + scheduler.integer(1, 300) * kSecond, [this, node, slot] {
      if (agents_[node] == slot) start_agent(node);
    });
  }

  jobs::JobSpec training(int64_t number) {
    jobs::JobSpec spec;
    spec.name = fmt::format("job {}", number);
    spec.settings = fmt::format("data: {{root: {}, train: [{}.npz], holdout: 0.1}}\ntrainer: {{metric: {}}}\n",
                                kDataRoot, number, kMetric);
    spec.metric = kMetric;
    spec.priority = scheduler.integer(-2, 2);
    return spec;
  }

  /// Submits until it is answered. False: refused, because what it needs has ended badly meanwhile.
  bool submit(jobs::RedisQueue& queue, jobs::JobSpec& spec) {
    spec.id = jobs::job_id(spec);
    plans_[spec.id] = draw_plan(spec.kind);
    recent_.push_back(spec);
    if (recent_.size() > 12) recent_.pop_front();
    bool there = false;
    persist([&] { there = asked([&] { queue.submit(spec); }); });
    if (there) submitted_[spec.id].at = scheduler.now();
    ++report_.jobs;
    return there;
  }
  static bool asked(const std::function<void()>& call) {
    try {
      call();
      return true;
    } catch (const jobs::JobRefused&) {
      return false;
    }
  }
  void wait_up_to(double seconds) {
    scheduler.sleep_until(scheduler.now() + static_cast<Time>(scheduler.fraction() * seconds * kSecond));
  }

  /// Somebody who submits jobs, until the faults stop; every call is repeated until it is answered.
  void submit_jobs() {
    Client client(*this, -1, nullptr);
    std::string previous;
    for (int64_t number = 1; scheduler.now() < static_cast<Time>(options_.hours * kHour); ++number) {
      auto spec = training(number);
      if (!previous.empty() && scheduler.chance(0.3)) {
        spec.after = {previous};
        if (scheduler.chance(0.5)) spec.kind = jobs::JobKind::export_;
      }
      if (spec.kind == jobs::JobKind::export_) spec.settings = spec.metric = "";
      if (spec.kind == jobs::JobKind::train && number % 4 == 1) spec.resources.most_ranks = 2;
      const bool there = submit(client.queue, spec);
      if (there && scheduler.chance(0.08)) {
        wait_up_to(3600);
        persist([&] { asked([&] { client.queue.cancel(spec.id); }); });
        trace("cancelled " + spec.id);
      }
      previous = there && spec.kind == jobs::JobKind::train ? spec.id : "";
      const double pause = -std::log(1 - scheduler.fraction()) * 3600 / options_.jobs_an_hour;
      scheduler.sleep_until(scheduler.now() + static_cast<Time>(pause * kSecond));
    }
  }

  /// Somebody who submits sweeps, pauses and resumes them, and now and then cancels one.
  void submit_sweeps() {
    Client client(*this, -1, nullptr);
    for (int64_t number = 1; scheduler.now() < static_cast<Time>(options_.hours * kHour); ++number) {
      wait_up_to(3 * 3600 / options_.jobs_an_hour * 6);
      jobs::SweepSpec sweep;
      sweep.id = jobs::content_id(fmt::format("sweep {}", number));
      sweep.name = fmt::format("sweep {}", number);
      sweep.method = "grid";
      sweep.metric = kMetric;
      sweep.trials = scheduler.integer(2, 6);
      if (scheduler.chance(0.7)) sweep.halving = {.rungs = {2, 4}, .eta = 2};
      bool there = false;
      persist([&] { there = asked([&] { client.queue.create_sweep(sweep); }); });
      for (int64_t trial = 0; there && trial < sweep.trials; ++trial) {
        auto spec = training(1'000'000 + 100 * number + trial);
        spec.sweep = sweep.id;
        spec.trial = trial;
        // A crash of Redis may have taken the sweep back: whoever submits says all of it again.
        if (!submit(client.queue, spec)) persist([&] { asked([&] { client.queue.create_sweep(sweep); }); });
      }
      if (scheduler.chance(0.3)) {
        wait_up_to(600);
        pause_for(client.queue, sweep.id, 3600);
      }
      if (scheduler.chance(0.15)) {
        wait_up_to(3600);
        persist([&] { asked([&] { client.queue.cancel_sweep(sweep.id); }); });
        trace("cancelled sweep " + sweep.id);
      }
    }
  }

  void pause_for(jobs::RedisQueue& queue, const std::string& sweep, double most_seconds) {
    bool paused = false;
    persist([&] { paused = asked([&] { queue.pause(sweep); }); });
    trace("paused " + sweep);
    if (paused) paused_[sweep] = scheduler.now();
    wait_up_to(most_seconds);
    paused_.erase(sweep);
    persist([&] { asked([&] { queue.resume(sweep); }); });
    trace("resumed " + sweep);
  }

  /// Somebody else with a hand on all jobs: tries again what ended badly, changes priorities, cancels, submits what is
  /// there already, and now and then pauses the whole queue.
  void look_after_jobs() {
    Client client(*this, -1, nullptr);
    auto& queue = client.queue;
    while (scheduler.now() < static_cast<Time>(options_.hours * kHour)) {
      wait_up_to(4000);
      if (submitted_.empty()) continue;
      auto at = submitted_.begin();
      std::advance(at, scheduler.integer(0, static_cast<int64_t>(submitted_.size()) - 1));
      const auto job = at->first;
      const auto what = scheduler.integer(0, 5);
      if (what == 0) persist([&] { asked([&] { queue.set_priority(job, scheduler.integer(-3, 3)); }); });
      if (what == 1 && scheduler.chance(0.3)) persist([&] { asked([&] { queue.cancel(job); }); });
      if (what == 2 && scheduler.chance(0.3)) pause_for(queue, "", 1200);
      if (what == 3 && !recent_.empty()) {
        const auto again = recent_[static_cast<size_t>(scheduler.integer(0, static_cast<int64_t>(recent_.size()) - 1))];
        bool is_new = false;
        persist([&] { asked([&] { is_new = queue.submit(again); }); });
        if (is_new) {
          trace("submitted anew: " + again.id);
          submitted_[again.id].at = scheduler.now();
        }
      }
      if (what < 4) continue;
      std::vector<std::string> ended;
      for (const auto& [id, known] : submitted_)
        if (is_final(known.state) && known.state != JobState::succeeded) ended.push_back(id);
      if (ended.empty()) continue;
      const auto& bad = ended[static_cast<size_t>(scheduler.integer(0, static_cast<int64_t>(ended.size()) - 1))];
      const std::string retried = bad;
      persist([&] { asked([&] { queue.retry(retried); }); });
    }
  }

  template <class Call>
  void persist(const Call& call) {
    for (;;) {
      try {
        call();
        return;
      } catch (const jobs::RedisUnavailable&) {
      } catch (const jobs::RedisDenied&) {
      }
      scheduler.sleep_until(scheduler.now() + scheduler.integer(1, 10) * kSecond);
    }
  }

  // ---- Trainings

  Plan draw_plan(jobs::JobKind kind) {
    Plan plan;
    plan.kind = kind;
    const double seconds = options_.minutes_a_job * 60 * (0.1 + 1.8 * scheduler.fraction());
    plan.steps =
        std::max(scheduler.integer(3, 30), static_cast<int64_t>(seconds / 400) + 1);  // an agent kills after 600 s
    plan.step_seconds = seconds / static_cast<double>(plan.steps);
    plan.checkpoint_every = scheduler.integer(1, 6);
    plan.bad = scheduler.chance(0.03);
    if (scheduler.chance(0.15)) plan.crashes = scheduler.integer(1, 3);
    plan.hangs = scheduler.chance(0.03);
    plan.deaf = scheduler.chance(0.05);
    plan.deadly = scheduler.chance(0.01);
    return plan;
  }

  static double objective_at(const std::string& job, int64_t step) {
    return static_cast<double>(std::hash<std::string>()(job) % 1000) / 1000 + static_cast<double>(step);
  }

  void send(Trial& trial, jobs::ProgressMessage message) {
    trial.messages.push_back(std::move(message));
    if (trial.notify) trial.notify();
  }

  void train(Trial& trial) {
    int code = 1;
    try {
      code = train_steps(trial);
    } catch (const StorageError& error) {
      trial.output += std::string(error.what()) + "\n";
      code = kStorage;
    } catch (const std::exception& error) {
      trial.output += std::string(error.what()) + "\n";
      code = exit_code_of(error);
      // The shared file system tells no lies about what is there: only its failures are allowed.
      fail(fmt::format("{}: {}", trial.folder.string(), error.what()));
    }
    if (scheduler.dying()) return;
    end_trial(trial, code, 0);
  }

  int train_steps(Trial& trial) {
    using Kind = jobs::ProgressMessage::Kind;
    auto& plan = plans_.at(trial.job);
    pause(trial, scheduler.fraction() * 5);
    trial.connected = true;
    send(trial, {.kind = Kind::hello});
    if (plan.bad) return kData;
    if (plan.kind == jobs::JobKind::export_) return write_export(trial);
    coordinator::CheckpointStore store(trial.folder / "checkpoints");
    int64_t first = 0;
    const auto yaml = files.read(trial.folder / "config.yaml");
    const std::string key = "\n  resume: ";
    const auto at = yaml.find(key);
    const auto resume =
        at == std::string::npos ? "" : yaml.substr(at + key.size(), yaml.find('\n', at + 1) - at - key.size());
    if (!resume.empty() && resume.front() == '/') {
      // As the trainer does: an older attempt that lives yet, cut off from Redis, may remove this one just now.
      const auto found = coordinator::read_intact_checkpoint(resume, [this](const auto& what) { trace(what); });
      first = std::stoll(found.files.at("step"));
      if (found.files.at("job") != trial.job)
        fail(fmt::format("{} resumes from {}, a checkpoint of {}", trial.job, resume, found.files.at("job")));
    }
    trace(fmt::format("{} trains from step {}", trial.folder.string(), first));
    const bool crashes = own_failures_[trial.job] < plan.crashes;
    const auto crash_at = first + scheduler.integer(0, std::max<int64_t>(plan.steps - first, 1));
    for (int64_t step = first + 1; step <= plan.steps; ++step) {
      pause(trial, plan.step_seconds);
      if (plan.deadly) {
        ++own_failures_[trial.job];
        scheduler.at(scheduler.now(), [this, node = trial.node] { kill_agent(node, true); });
        for (;;) pause(trial, 3600);
      }
      if (crashes && step >= crash_at) {
        ++own_failures_[trial.job];
        return scheduler.chance(0.5) ? 1 : 139;
      }
      if (plan.hangs && step == plan.steps / 2 + 1) {
        plan.hangs = false;
        ++own_failures_[trial.job];
        for (;;) pause(trial, 3600);
      }
      send(trial, {.kind = Kind::progress, .step = step, .total_steps = plan.steps, .loss = 1});
      const bool stops = (trial.stop || trial.terminate) && !plan.deaf;
      if (step % plan.checkpoint_every == 0 || step == plan.steps || stops) {
        store.commit(step, {{"step", std::to_string(step)}, {"job", trial.job}, {"weights", std::string(64, 'w')}});
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
      store.commit(first, {{"step", std::to_string(first)}, {"job", trial.job}, {"weights", std::string(64, 'w')}});
      send(trial, {.kind = Kind::checkpoint, .step = first, .path = store.folder(first).string()});
    }
    send(trial, {.kind = Kind::result,
                 .step = plan.steps,
                 .total_steps = plan.steps,
                 .metrics = {{kMetric, objective_at(trial.job, plan.steps)}}});
    return kSuccess;
  }

  int write_export(Trial& trial) {
    const auto out = trial.folder / "export";
    auto aside = out;
    aside += kAsideSuffix;
    files.create_folders(aside);
    pause(trial, 10);
    write_synced(aside / "model", "weights");
    write_synced(aside / "manifest.json", R"({"files": {"model": {"bytes": 7}}})");
    replace_folder(aside, out);
    send(trial, {.kind = jobs::ProgressMessage::Kind::result});
    return kSuccess;
  }

  void pause(Trial& trial, double seconds) {
    scheduler.sleep_until(scheduler.now() + static_cast<Time>(seconds * kSecond));
    thaw(trial.node);
  }

  // ---- Faults

  int file_fault(const char* operation, const std::filesystem::path& path, size_t) {
    if (scheduler.dying()) return SimulatedFiles::kDead;
    const auto process = scheduler.process();
    if (process == 0) return 0;
    const bool writes = std::string_view(operation) != "read" && std::string_view(operation) != "list";
    // A moment, in which somebody may die.
    try {
      if (writes) scheduler.sleep_until(scheduler.now() + scheduler.integer(100, 20 * kMillisecond));
      thaw(node_of_[process]);
    } catch (const Killed&) {
    }
    if (scheduler.dying()) return SimulatedFiles::kDead;
    static_cast<void>(path);
    const auto broken = broken_disks_.find(node_of_[process]);
    if (broken != broken_disks_.end() && (writes || broken->second == EIO)) return broken->second;
    if (disk_full_ && std::string_view(operation) == "write") return ENOSPC;
    return 0;
  }

  /// Something is not as it should be, for so long from now on.
  void disturbed(double seconds) {
    calm_since_ = std::max(calm_since_, scheduler.now() + static_cast<Time>(seconds * kSecond));
  }
  bool in_trouble() const { return disk_full_ || !broken_disks_.empty() || troubles_ > 0; }

  /// For a while, then back to normal.
  void trouble_for(double seconds, const std::string& what, const std::function<void(bool)>& set) {
    trace(what);
    ++troubles_;
    set(true);
    disturbed(seconds);
    scheduler.at(scheduler.now() + static_cast<Time>(seconds * kSecond), [this, what, set] {
      --troubles_;
      set(false);
      trace("over: " + what);
    });
  }
  double some_seconds(double longest) {
    // Mostly short, now and then long: uniform in the logarithm.
    return std::exp(std::log(0.2) + scheduler.fraction() * (std::log(longest) - std::log(0.2)));
  }
  int64_t some_node() { return scheduler.integer(0, kNodes - 1); }

  void choose_faults() {
    auto& model = redis.model();
    const std::vector<Fault> all = {
        {"agents killed", [this] { kill_agent(some_node(), false); }},
        {"agents killed with their jobs", [this] { kill_agent(some_node(), true); }},
        {"agents drained",
         [this] {
           const auto slot = agents_[some_node()];
           if (slot == nullptr || slot->agent == nullptr) return;
           trace("drain " + slot->name);
           slot->agent->request_stop();
           if (scheduler.chance(0.3)) slot->agent->request_stop();
         }},
        {"jobs killed",
         [this] {
           if (running_.empty()) return;
           auto at = running_.begin();
           std::advance(at, scheduler.integer(0, static_cast<int64_t>(running_.size()) - 1));
           trace("kill -9 " + at->second->folder.string());
           ++own_failures_[at->second->job];  // nobody can tell it from a crash
           kill_trial(std::shared_ptr(at->second));
         }},
        {"nodes that stand still",
         [this] {
           const auto node = some_node();
           frozen_until[node] = scheduler.now() + static_cast<Time>(some_seconds(900) * kSecond);
           disturbed(static_cast<double>(frozen_until[node] - scheduler.now()) / kSecond);
           trace(fmt::format("node {} stands still for {:.1f} s", node,
                             static_cast<double>(frozen_until[node] - scheduler.now()) / kSecond));
         }},
        {"crashes of Redis", [this] { crash_redis(); }},
        {"nodes cut off",
         [this] {
           const auto node = scheduler.integer(-1, kNodes - 1);
           trouble_for(some_seconds(1800), fmt::format("node {} is cut off", node), [this, node](bool on) {
             on ? static_cast<void>(redis.cut_off.insert(node)) : static_cast<void>(redis.cut_off.erase(node));
           });
         }},
        {"losses of messages",
         [this] {
           trouble_for(some_seconds(1800), "messages get lost", [this](bool on) { redis.loss = on ? 0.2 : 0; });
         }},
        {"delays of messages",
         [this] {
           trouble_for(some_seconds(1800), "messages are late", [this](bool on) { redis.delay = on ? 0.2 : 0; });
         }},
        {"Redis a replica",
         [this, &model] {
           trouble_for(some_seconds(900), "Redis is a replica", [&model](bool on) { model.trouble.replica = on; });
         }},
        {"Redis full",
         [this, &model] {
           trouble_for(some_seconds(900), "Redis is full", [&model](bool on) { model.trouble.full = on; });
         }},
        {"disks of Redis that fail",
         [this, &model] {
           trouble_for(some_seconds(900), "the disk of Redis fails",
                       [&model](bool on) { model.trouble.disk_error = on; });
         }},
        {"Redis loading",
         [this, &model] {
           trouble_for(some_seconds(900), "Redis loads", [&model](bool on) { model.trouble.loading = on; });
         }},
        {"passwords refused",
         [this, &model] {
           trouble_for(some_seconds(900), "Redis asks for a password", [&model](bool on) {
             model.trouble.authentication = on ? "NOAUTH Authentication required." : "";
           });
         }},
        {"full disks",
         [this] { trouble_for(some_seconds(1800), "the disk is full", [this](bool on) { disk_full_ = on; }); }},
        {"broken disks",
         [this] {
           const auto node = some_node();
           const int error = scheduler.chance(0.5) ? EROFS : EIO;
           trouble_for(some_seconds(3600), fmt::format("node {} has a broken disk ({})", node, error),
                       [this, node, error](bool on) {
                         if (on)
                           broken_disks_[node] = error;
                         else
                           broken_disks_.erase(node);
                       });
         }},
        {"jumps of the clock",
         [this] {
           const auto seconds =
               scheduler.chance(0.5) ? scheduler.integer(-300, 300) : scheduler.integer(-40, 40) * 86400;
           trace(fmt::format("the clock of Redis jumps by {} s", seconds));
           redis.move_clock(seconds);
           if (scheduler.chance(0.7)) {
             scheduler.at(scheduler.now() + static_cast<Time>(some_seconds(3600) * kSecond), [this, seconds] {
               disturbed(0);
               trace("the clock of Redis jumps back");
               redis.move_clock(-seconds);
             });
           }
         }},
        {"losses of power",
         [this] {
           trace("power fails, for all but Redis at times");
           disturbed(0);
           for (int64_t node = 0; node < kNodes; ++node) {
             frozen_until[node] = 0;
             kill_agent(node, true);
           }
           files.lose_power([this] { return static_cast<SimulatedFiles::Fate>(scheduler.integer(0, 2)); });
           check_results();
           if (!scheduler.chance(0.5) || !redis.up()) return;
           crash_redis();
         }},
    };
    // Each run has some kinds of fault only: what always comes together hides what comes of one ("swarm testing").
    for (const auto& fault : all) {
      if (scheduler.chance(0.5)) faults_.push_back(fault);
    }
    minutes_between_faults_ = 5 * std::exp(scheduler.fraction() * 4);  // 5 minutes to 4.5 hours
  }

  void crash_redis() {
    ++report_.redis_crashes;
    trouble_for(some_seconds(1800), "Redis crashes", [this](bool on) { on ? redis.crash() : redis.restart(); });
    forget_what_redis_lost();
  }

  void plan_next_fault() {
    if (faults_.empty()) return;
    const double pause = -std::log(1 - scheduler.fraction()) * minutes_between_faults_ * 60;
    scheduler.at(scheduler.now() + static_cast<Time>(pause * kSecond), [this] {
      if (healed_) return;
      ++report_.faults;
      const auto& fault = faults_[static_cast<size_t>(scheduler.integer(0, static_cast<int64_t>(faults_.size()) - 1))];
      ++report_.faults_by_kind[fault.kind];
      disturbed(0);
      fault.begin();
      plan_next_fault();
    });
  }

  void heal() {
    healed_ = true;
    trace("the faults stop");
  }

  // ---- What must hold

  /// Jobs whose submission was answered within the second before a crash may be gone, with appendfsync everysec.
  void forget_what_redis_lost() {
    const auto now = scheduler.now();
    std::erase_if(submitted_, [&](const auto& entry) {
      return now - entry.second.at < 2 * kSecond && redis.model().keys().count(job_key(entry.first)) == 0;
    });
    std::erase_if(paused_, [&](const auto& entry) { return now - entry.second < 2 * kSecond; });
    last_fences_.clear();
    last_leases_.clear();
    lost_second_ = true;
  }

  static std::string job_key(const std::string& id) { return "{foretime}:job:" + id; }

  /// Who writes holds the newest lease. A result may be said twice: then it changes nothing.
  void check_writer(const std::vector<std::string>& call, const Answer& answer) {
    const auto script = call.front() == "EVALSHA" ? scripts_.find(call.at(1)) : scripts_.end();
    if (script != scripts_.end() && answer.kind == Answer::Kind::array && !answer.elements.empty()) {
      const auto& name = script->second;
      const bool ends = name == "finish" || name == "finish_claim";
      const size_t at = name == "finish_claim" ? 6 : 5;
      const auto& word = answer.elements.front().text;
      const bool refused = word == "lost" || word == "no" || word == "refused";
      if ((ends || name == "renew" || name == "report") && !refused && call.size() > at + 2) {
        const auto last = last_leases_.find(call[at]);
        const auto lease = call[at + 1] + ":" + call[at + 2];
        if (last != last_leases_.end() && last->second != lease && (!ends || left_.count(call[at]) != 0))
          fail(fmt::format("{} of {} by lease {}, but the newest is {}", name, call[at], lease, last->second));
      }
    }
    for (auto& [job, lease] : fresh_leases_) last_leases_[job] = std::move(lease);
    fresh_leases_.clear();
    left_.clear();
  }

  /// Cheap, after each command: the newest transitions.
  void after_command() {
    const auto& keys = redis.model().keys();
    const auto found = keys.find("{foretime}:events");
    if (found == keys.end()) return;
    const auto& stream = std::get<Stream>(found->second);
    const auto place = std::pair(stream.last_milliseconds, stream.last_sequence);
    if (place == seen_) return;
    auto entry = stream.entries.end();
    while (entry != stream.entries.begin() && std::pair((entry - 1)->milliseconds, (entry - 1)->sequence) > seen_)
      --entry;
    if (place < seen_) entry = stream.entries.end();  // a crash took some back
    seen_ = place;
    for (; entry != stream.entries.end(); ++entry) {
      std::map<std::string, std::string> fields;
      for (size_t i = 0; i + 1 < entry->fields.size(); i += 2) fields[entry->fields[i]] = entry->fields[i + 1];
      transition(fields);
    }
  }

  void transition(const std::map<std::string, std::string>& event) {
    const auto& job = event.at("job");
    for (const auto& [name, value] : event) {
      for (const char c : name + value + "\n")
        report_.digest = (report_.digest ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    }
    if (options_.trace)
      trace(fmt::format("{}: {} {} -> {} (fence {}, {})", job, event.at("event"), event.at("from"), event.at("to"),
                        event.at("fence"), event.at("agent")));
    const auto fence = std::stoll(event.at("fence"));
    if (event.at("from") == "active" && event.at("to") != "active") left_.insert(job);
    if (event.at("event") == "claim") {
      fresh_leases_[job] = event.at("fence") + ":" + field(job, "token");
      auto& last = last_fences_[job];
      if (fence <= last) fail(fmt::format("{}: fence {} after {}", job, fence, last));
      last = fence;
      if (const auto most = field(job, "most_ranks"), took = field(job, "attempt_ranks");
          !most.empty() && (took.empty() || std::stoll(took) < 1 || std::stoll(took) > std::stoll(most)))
        fail(fmt::format("{} took '{}' of at most {} ranks", job, took, most));
      if (paused_.count("") != 0) fail(job + " was claimed while the queue was paused");
      const auto sweep = field(job, "sweep");
      if (!sweep.empty() && paused_.count(sweep) != 0) fail(job + " was claimed while its sweep was paused");
    }
    auto& known = submitted_[job];
    if (event.at("event") == "forget") {
      if (!is_final(known.state)) fail(job + " was forgotten before it had ended");
      known.forgotten = true;
      return;
    }
    if (event.at("event") == "refuse") return;
    if (event.at("event") == "submit") {
      known.forgotten = false;  // anew, after it was forgotten
      if (plans_.count(job) == 0)
        plans_[job] = draw_plan(field(job, "kind") == "train" ? jobs::JobKind::train : jobs::JobKind::export_);
    }
    if (event.at("event") == "retry") own_failures_[job] = 0;
    const auto to = jobs::parse_job_state(event.at("to"));
    if (known.state == JobState::succeeded && to != JobState::succeeded && !lost_second_)
      fail(fmt::format("{}: {} after it had succeeded", job, event.at("to")));
    known.state = to;
    if (to == JobState::succeeded && event.at("from") == "active") {
      ++report_.succeeded;
      check_result(job);
    }
    if ((to == JobState::dead || to == JobState::failed) && event.at("from") != to_string(to)) check_bad_end(job, to);
  }

  std::string field(const std::string& job, const std::string& name) const {
    const auto& keys = redis_model().keys();
    const auto found = keys.find(job_key(job));
    if (found == keys.end()) return "";
    const auto& hash = std::get<Hash>(found->second);
    const auto at = hash.find(name);
    return at == hash.end() ? "" : at->second;
  }
  const RedisModel& redis_model() const { return const_cast<SimulatedRedis&>(redis).model(); }

  /// Nothing that was there is lost later.
  void check_results() {
    if (!redis.up()) return;
    for (const auto& [job, known] : submitted_) {
      if (known.state == JobState::succeeded && !known.forgotten && field(job, "state") == "succeeded")
        check_result(job);
    }
  }

  /// No `succeeded` without a result, and its checkpoint is the job's own, the last, and whole.
  void check_result(const std::string& job) {
    const auto& plan = plans_.at(job);
    const auto checkpoint = field(job, "checkpoint"), objective = field(job, "objective");
    const bool stopped = field(job, "stopped") == "1", trains = plan.kind == jobs::JobKind::train;
    if (field(job, "results") != "1") fail(fmt::format("{} succeeded with {} results", job, field(job, "results")));
    if (stopped && checkpoint.empty()) return;
    if (checkpoint.empty() || (trains && objective.empty()))
      fail(fmt::format("{} succeeded with checkpoint '{}' and objective '{}'", job, checkpoint, objective));
    const auto folder = std::filesystem::path(kRunRoot) / checkpoint;
    if (!trains) {
      if (!files.exists(folder / "model")) fail(fmt::format("the result of {}, {}, is not there", job, checkpoint));
      return;
    }
    coordinator::StoredCheckpoint found;
    try {
      found = coordinator::read_checkpoint(folder);
    } catch (const std::exception& error) {
      fail(fmt::format("the result of {} cannot be read: {}", job, error.what()));
    }
    if (found.files.at("job") != job) fail(fmt::format("the result of {} is {}, of another job", job, checkpoint));
    if (stopped) return;
    if (found.files.at("step") != std::to_string(plan.steps))
      fail(fmt::format("the result of {} is {}, not of its last step {}", job, checkpoint, plan.steps));
    if (std::abs(std::stod(objective) - objective_at(job, plan.steps)) > 1e-9)
      fail(fmt::format("the objective of {} is {}", job, objective));
  }

  /// A job ends badly through its own faults only.
  void check_bad_end(const std::string& job, JobState state) {
    const auto& plan = plans_.at(job);
    if (state == JobState::failed && !plan.bad)
      fail(fmt::format("{} failed, but there is nothing wrong with it: {}", job, field(job, "error")));
    if (state == JobState::dead && own_failures_[job] + (plan.deaf ? 3 : 0) < 3)
      fail(fmt::format("{} is dead after {} failures of its own: {}", job, own_failures_[job], field(job, "error")));
  }

  /// All of the keys at one moment.
  void check() {
    auto& model = redis.model();
    if (!redis.up()) return;
    const auto trouble = std::exchange(model.trouble, {});
    jobs::RedisClient client(Client::url());
    const std::shared_ptr<RedisModel> not_owned(std::shared_ptr<void>(), &model);
    client.connect_by([&](const jobs::RedisUrl&) { return std::make_unique<ModelConnection>(not_owned); });
    const auto broken = jobs::broken_invariants(jobs::dump_keys(client, queue_settings().prefix), {});
    model.trouble = trouble;
    if (!broken.empty()) fail(fmt::format("{}", broken.front()));
    for (const auto& [job, known] : submitted_) {
      if (known.forgotten || known.at == 0) continue;
      if (model.keys().count(job_key(job)) == 0) fail(job + " is lost");
    }
  }

  /// Where nothing was wrong for a quarter of an hour: each lease is held by an agent that lives, which renews it.
  void check_calm() {
    if (in_trouble() || !redis.up() || scheduler.now() - calm_since_ < 15 * kMinute) return;
    std::set<std::string> names;
    for (const auto& [node, slot] : agents_) {
      if (slot != nullptr && slot->agent != nullptr) names.insert(slot->name);
    }
    const auto& keys = redis.model().keys();
    const auto found = keys.find("{foretime}:leases");
    if (found == keys.end()) return;
    for (const auto& [deadline, job] : std::get<SortedSet>(found->second).order()) {
      const auto left = deadline / 1000 - static_cast<double>(redis.now_ms()) / 1000;
      if (left > kLeaseTerm + 1 || left < -kLeaseTerm) fail(fmt::format("the lease of {} ends in {:.1f} s", job, left));
      if (names.count(field(job, "agent")) == 0)
        fail(fmt::format("{} is leased to {}, which does not live", job, field(job, "agent")));
    }
  }

  void housekeeping() {
    check();
    check_calm();
    files.lose_power([] { return SimulatedFiles::Fate::kept; });
    // What is forgotten leaves no folders here.
    std::vector<std::string> gone;
    for (const auto& [job, known] : submitted_) {
      const bool runs =
          std::any_of(running_.begin(), running_.end(), [&](const auto& entry) { return entry.second->job == job; });
      if (known.forgotten && !runs) gone.push_back(job);
    }
    for (const auto& job : gone) {
      files.remove(std::filesystem::path(kRunRoot) / job);
      submitted_.erase(job);
      plans_.erase(job);
      own_failures_.erase(job);
      last_fences_.erase(job);
      last_leases_.erase(job);
    }
    scheduler.at(scheduler.now() + 10 * kMinute, [this] { housekeeping(); });
  }

  bool all_ended() const {
    return std::all_of(submitted_.begin(), submitted_.end(), [](const auto& entry) {
      return entry.second.forgotten || entry.second.at == 0 || is_final(entry.second.state);
    });
  }

  void say_what_is_left() {
    for (const auto& [job, known] : submitted_) {
      if (!known.forgotten && known.at != 0 && !is_final(known.state))
        fail(fmt::format("{} is {} two days after the faults stopped: {}", job, to_string(known.state),
                         field(job, "reason")));
    }
  }

  void scheduler_stops() {
    healed_ = true;
    redis.changed = nullptr;
    for (int64_t process = 1; process <= processes_; ++process) scheduler.kill(process);
    files.fail_by(nullptr);
  }

  struct Submitted {
    Time at = 0;  // when the answer came; 0: it has not
    JobState state = JobState::waiting;
    bool forgotten = false;
  };

  spdlog::logger log_;
  ClusterReport report_;
  int64_t processes_ = 0, incarnations_ = 0, troubles_ = 0;
  std::map<int64_t, std::shared_ptr<AgentProcess>> agents_;  // by node
  std::map<int64_t, int64_t> node_of_;                       // by process
  std::map<int64_t, std::shared_ptr<Trial>> running_;        // by process
  std::map<std::string, Submitted> submitted_;
  std::map<std::string, Plan> plans_;
  std::map<std::string, int64_t> own_failures_, last_fences_;
  std::vector<Fault> faults_;
  double minutes_between_faults_ = 30;
  bool healed_ = false, disk_full_ = false, lost_second_ = false;
  std::map<int64_t, int> broken_disks_;  // by node: the errno
  std::pair<int64_t, int64_t> seen_{0, -1};
  Time calm_since_ = 0;                 // the last fault ended then
  std::map<std::string, Time> paused_;  // sweeps that are paused, by when that was answered; "": the queue
  std::deque<jobs::JobSpec> recent_;    // submitted last
  int64_t weakened_ = 0;
  std::map<std::string, std::string> scripts_;                     // names by SHA-1
  std::map<std::string, std::string> last_leases_, fresh_leases_;  // fence and token by job; fresh: of this command
  std::set<std::string> left_;                                     // jobs that ceased to be active by it
};

SimulatedCommand::~SimulatedCommand() {
  trial_->notify = nullptr;
  if (trial_->exit) return;
  // The supervisor sees that its agent is gone, and kills what is left; not always at once.
  auto& scheduler = cluster_.scheduler;
  scheduler.at(scheduler.now() + scheduler.integer(0, 3 * kSecond),
               [&cluster = cluster_, trial = trial_] { cluster.kill_trial(trial); });
}

void SimulatedCommand::terminate() {
  trial_->terminate = true;
  auto& scheduler = cluster_.scheduler;
  scheduler.at(scheduler.now() + static_cast<Time>(grace_ * kSecond),
               [&cluster = cluster_, trial = trial_] { cluster.kill_trial(trial); });
}

void SimulatedCommand::kill() {
  auto& scheduler = cluster_.scheduler;
  scheduler.at(scheduler.now() + scheduler.integer(kMillisecond, kSecond),
               [&cluster = cluster_, trial = trial_] { cluster.kill_trial(trial); });
}

double SimulatedWorld::steady_seconds() { return static_cast<double>(cluster_.scheduler.now()) / kSecond; }
uint64_t SimulatedWorld::random_bits() { return cluster_.scheduler.random()(); }

std::unique_ptr<jobs::RunningCommand> SimulatedWorld::start(jobs::SupervisedProcess::Options command,
                                                            const std::filesystem::path& folder) {
  auto trial = std::make_shared<Trial>();
  trial->folder = folder;
  trial->job = folder.parent_path().filename().string();
  trial->node = node_;
  trial->notify = [this] { wake(); };
  cluster_.start_trial(trial);
  return std::make_unique<SimulatedCommand>(cluster_, trial, command.kill_grace_seconds);
}

std::unique_ptr<jobs::Background> SimulatedWorld::run_beside(std::function<double()> step) {
  return std::make_unique<SimulatedBackground>(cluster_.scheduler, [this, step = std::move(step)] {
    cluster_.thaw(node_);
    return step();
  });
}

class SimulatedWorld::LoopWaiter final : public jobs::Waiter {
 public:
  explicit LoopWaiter(SimulatedWorld& world) : world_(world) {}
  void wait(std::vector<pollfd>&, double seconds) override {
    auto& scheduler = world_.cluster_.scheduler;
    if (!world_.woken_) scheduler.wait(&world_, scheduler.now() + static_cast<Time>(std::ceil(seconds * kSecond)));
    world_.woken_ = false;
    scheduler.sleep_until(scheduler.now());  // where the process was killed meanwhile
    world_.cluster_.thaw(world_.node_);
  }
  void wake() override { world_.wake(); }

 private:
  SimulatedWorld& world_;
};

std::unique_ptr<jobs::Waiter> SimulatedWorld::make_waiter() { return std::make_unique<LoopWaiter>(*this); }

void SimulatedWorld::wake() {
  woken_ = true;
  cluster_.scheduler.wake(this);
}

}  // namespace

ClusterReport simulate_cluster(const ClusterOptions& options) { return Cluster(options).run(); }

}  // namespace foretime::simulation
