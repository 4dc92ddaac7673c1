#include "tests/simulation/cluster/cluster.h"

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "tests/simulation/cluster/agents.h"
#include "tests/simulation/cluster/directed_faults.h"
#include "tests/simulation/cluster/environment.h"
#include "tests/simulation/cluster/faults.h"
#include "tests/simulation/cluster/invariants.h"
#include "tests/simulation/cluster/job_ledger.h"
#include "tests/simulation/cluster/trainings.h"
#include "tests/simulation/cluster/users.h"
#include "tests/simulation/cluster/weaknesses.h"

namespace foretime::simulation {
namespace {

class Cluster {
 public:
  explicit Cluster(const ClusterOptions& options)
      : env_(options),
        trainings_(env_, ledger_),
        agents_(env_, trainings_),
        invariants_(env_, ledger_, agents_),
        faults_(env_, ledger_, trainings_, agents_, invariants_),
        directed_(
            env_, invariants_, [this](double seconds) { faults_.crash_redis(seconds); },
            [this] { env_.scheduler.start(env_.next_process(), [this] { users_.resume_again(); }); }),
        users_(env_, ledger_) {
    trainings_.take_down = [this](int64_t node) { agents_.kill(node, true); };
  }

  ClusterReport run() {
    const FilesScope scope(env_.files);
    prepare_files();
    env_.redis.changed = [this](const auto& call, const Answer& answer) { invariants_.after_command(call, answer); };
    weaken();
    faults_.choose();
    for (int64_t node = 0; node < kNodes; ++node) agents_.start(node);
    auto& scheduler = env_.scheduler;
    scheduler.start(env_.next_process(), [this] { users_.submit_jobs(); });
    scheduler.start(env_.next_process(), [this] { users_.submit_sweeps(); });
    scheduler.start(env_.next_process(), [this] { users_.look_after_jobs(); });
    scheduler.at(kMinute, [this] { housekeeping(); });
    faults_.plan_next();
    directed_.choose();
    try {
      scheduler.run_until(static_cast<Time>(env_.options.hours * kHour));
      faults_.stop();
      directed_.stop();
      env_.trace("the faults stop");
      for (int hour = 0; hour < 48 && !invariants_.all_ended(); ++hour) scheduler.run_until(scheduler.now() + kHour);
      invariants_.check_all_ended();
      invariants_.check();
      invariants_.check_results();
    } catch (const Broken&) {
    }
    env_.report.hours = static_cast<double>(scheduler.now()) / kHour;
    env_.report.steps = scheduler.steps();
    env_.report.commands = env_.redis.model().commands();
    end_all_processes();
    if (!env_.options.weakness.empty() && weakened_ == 0)
      throw std::logic_error("weakness " + env_.options.weakness + " finds nothing to change in the scripts");
    return env_.report;
  }

 private:
  void prepare_files() {
    auto& files = env_.files;
    files.create_folders(kRunRoot);
    files.create_folders(kDataRoot);
    write_file_atomically(std::filesystem::path(kDataRoot) / "C1.npz", "data");
    files.fail_by([this](const char* operation, const auto&, size_t) { return faults_.file_fault(operation); });
    for (int i = 0; i < 2; ++i) files.lose_power([] { return SimulatedFiles::Fate::kept; });
  }

  /// Breaks the product as the options say.
  void weaken() {
    if (env_.options.weakness.empty()) return;
    const auto& weakness = weakness_named(env_.options.weakness);
    env_.redis.model().edit_script = [this, &weakness](std::string script) {
      return weakened(weakness, std::move(script), weakened_);
    };
    if (weakness.files_unsynced) env_.files.forget_syncs(), ++weakened_;
  }

  void housekeeping() {
    invariants_.check();
    invariants_.check_calm();
    env_.files.lose_power([] { return SimulatedFiles::Fate::kept; });
    remove_forgotten();
    env_.scheduler.at(env_.scheduler.now() + 10 * kMinute, [this] { housekeeping(); });
  }

  /// What is forgotten leaves no folders here.
  void remove_forgotten() {
    const auto& running = trainings_.running();
    std::vector<std::string> gone;
    for (const auto& entry : ledger_.submitted) {
      const auto is_its = [&](const auto& trial) { return trial.second->job == entry.first; };
      if (entry.second.forgotten && std::none_of(running.begin(), running.end(), is_its)) gone.push_back(entry.first);
    }
    for (const auto& job : gone) {
      env_.files.remove(std::filesystem::path(kRunRoot) / job);
      ledger_.forget(job);
      invariants_.forget(job);
    }
  }

  void end_all_processes() {
    faults_.stop();
    directed_.stop();
    env_.redis.hold_back = nullptr;
    env_.redis.changed = nullptr;
    for (int64_t process = 1; process <= env_.processes; ++process) env_.scheduler.kill(process);
    env_.files.fail_by(nullptr);
  }

  Environment env_;
  JobLedger ledger_;
  Trainings trainings_;
  Agents agents_;
  Invariants invariants_;
  Faults faults_;
  DirectedFaults directed_;
  Users users_;
  int64_t weakened_ = 0;  // edits of the scripts
};

}  // namespace

ClusterReport simulate_cluster(const ClusterOptions& options) { return Cluster(options).run(); }

}  // namespace foretime::simulation
