#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "comm/communicator.h"
#include "worker/profile/profiler.h"

namespace foretime::worker {

/// What the ranks did between two reports.
struct StepReport {
  int64_t steps = 0;
  /// Mean over steps of the shortest wait of any rank: that rank came last, so nobody but the transport kept it. What
  /// communication alone adds to a step.
  double comm_exposed_ms = 0;
  /// Mean over steps of the longest wait of any rank: what communication and unequal work cost together.
  double comm_wait_ms = 0;
  /// comm_exposed_ms over the mean time of a step of the slowest rank, waits included.
  double comm_exposed_share = 0;
  int straggler_rank = 0;       // the rank with the most time in work of its own
  std::string straggler_group;  // largest group of the step that took it longest; empty where it had no work
  double straggler_ratio = 1;   // its time over the mean of all ranks; 1 where nobody worked
};

/// The report as fields of a line of metrics.jsonl: comm_exposed_ms, comm_wait_ms, comm_exposed_share, straggler_rank,
/// straggler_group, straggler_ratio.
nlohmann::json to_json(const StepReport& report);

/// The slowest rank works so much longer than the mean (a fifth) that somebody should look.
bool is_straggling(const StepReport& report);
std::string describe_straggler(const StepReport& report);

/// Measures each step on each rank: time at work (its batch, forward, backward, optimiser) and time in wait for others.
///   begin_step();  enter("loader");  working_on(name);  …  waited(seconds);  …  end_step();
/// Costs no messages but those of `report`.
class StepMonitor {
 public:
  using Clock = std::chrono::steady_clock;

  /// `profiler`, where there is one, records the phases of each step as spans.
  explicit StepMonitor(Profiler* profiler = nullptr) : profiler_(profiler) {}

  void begin_step();
  /// The step's phase `name` begins; the one before ends.
  void enter(const char* name);
  /// The largest group of what this rank computes in this step.
  void working_on(const std::string& group) { group_ = group; }
  /// This rank has waited for gradients of others, or for anything that all ranks send.
  void waited(double seconds) { wait_ += seconds; }
  void end_step();

  /// Of the steps since the last report. All ranks call it after the same step; all get the same answer.
  StepReport report(comm::Communicator& comm);

 private:
  Profiler* profiler_;
  bool in_phase_ = false;
  Clock::time_point begin_;
  double wait_ = 0;  // seconds, of the current step
  std::string group_;

  std::vector<double> waits_;  // seconds, one for each step
  double busy_ = 0, longest_ = 0;
  std::string longest_group_;
};

}  // namespace foretime::worker
