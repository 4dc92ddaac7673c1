#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "jobs/progress/channel.h"
#include "jobs/supervisor/supervisor.h"
#include "tests/simulation/cluster/environment.h"
#include "tests/simulation/cluster/job_ledger.h"

namespace foretime::simulation {

/// A training that pretends: steps that take time, real checkpoints, messages to its agent.
struct Trial {
  std::string job;
  std::filesystem::path folder;
  int64_t process = 0, node = 0;
  std::optional<jobs::ExitStatus> exit;
  std::deque<jobs::ProgressMessage> messages;
  std::string output;
  bool connected = false, stop = false, terminate = false;
  std::function<void()> notify;  // the agent's loop; empty where the agent is gone
};

/// All that run.
class Trainings {
 public:
  Trainings(Environment& env, JobLedger& ledger) : env_(env), ledger_(ledger) {}

  void start(const std::shared_ptr<Trial>& trial);
  void kill(const std::shared_ptr<Trial>& trial);
  void kill_all_on(int64_t node);
  const std::map<int64_t, std::shared_ptr<Trial>>& running() const { return running_; }  // by process

  /// Called, outside of all tasks, when a job takes its node down.
  std::function<void(int64_t node)> take_down;

 private:
  void end(Trial& trial, int code, int signal);
  void train(Trial& trial);
  int64_t last_step_before(const Trial& trial);
  int train_steps(Trial& trial);
  int write_export(Trial& trial);
  void pause(Trial& trial, double seconds);
  static void send(Trial& trial, jobs::ProgressMessage message);

  Environment& env_;
  JobLedger& ledger_;
  std::map<int64_t, std::shared_ptr<Trial>> running_;
};

}  // namespace foretime::simulation
