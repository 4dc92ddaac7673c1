#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/process.h"
#include "comm/communicator.h"
#include "worker/profile/profiler.h"

namespace foretime::worker {

/// Describes the host with the slowest network.
struct LinkReport {
  std::string host;   // host to or from which transfers take longest
  double ms = 0;      // time to send kBytes to another host, or from there: median over other hosts, slower direction
  double others = 0;  // median of the same time over the other hosts, in milliseconds
  /// Returns how many times as long as those of other hosts the transfers of `host` take; 1 if others is 0.
  double ratio() const { return others > 0 ? ms / others : 1; }
  static constexpr int64_t kBytes = 256 << 10;  // size of a measured transfer
};

/// Describes the work and the waits of all ranks in the steps since the last report.
struct StepReport {
  int64_t steps = 0;  // number of these steps
  /// Mean over steps of the shortest wait of any rank. That rank was the last to wait, so only the transport delayed
  /// it: this is the time that communication adds to a step.
  double comm_exposed_ms = 0;
  /// Mean over steps of the longest wait of any rank: the cost of communication and unequal work together.
  double comm_wait_ms = 0;
  /// Ratio of comm_exposed_ms to the mean step time of the slowest rank, waits included.
  double comm_exposed_share = 0;
  int straggler_rank = 0;       // straggler: the rank with the longest time of work, waits excluded
  std::string straggler_group;  // largest group of the straggler's longest step; "" if no step had a group
  double straggler_ratio = 1;   // straggler's time of work / mean over all ranks; 1 if no rank worked
  /// Host ("rank N" with a single host) for which all others waited longest in total; "" if no rank waited.
  std::string waited_for;
  double waited_for_share = 0;       // fraction of the steps in which waited_for was the last to wait
  double waited_for_ms = 0;          // time for which all others waited for it: mean over all steps
  double step_ms = 0;                // mean step time of the slowest rank, waits included
  std::optional<LinkReport> link{};  // nullopt: links were not measured
  double memory_mib = 0;             // resident memory at the report, summed over all ranks
  double cpu_cores = 0;              // mean number of CPU cores in use, summed over all ranks
  double gpu_percent = -1;           // mean over the ranks' GPUs; -1: no rank has a GPU that reports it
  double gpu_memory_mib = 0;         // memory in use on these GPUs, summed over them
};

/// Returns the report as fields of a line of metrics.jsonl: all members except steps, step_ms and link; gpu_percent and
/// gpu_memory_mib only if gpu_percent is known; slow_link (host, or "" if none is slow) and slow_link_ratio if links
/// were measured.
nlohmann::json to_json(const StepReport& report);

/// Returns whether the straggler works more than 1.2 times as long as the mean of all ranks.
bool is_straggling(const StepReport& report);
/// Returns a sentence about the straggler for the log.
std::string describe_straggler(const StepReport& report);
/// Returns whether waiting for one host (or rank) takes more than a fifth of the time of the steps.
bool is_waited_for(const StepReport& report);
/// Returns a sentence about the host (or rank) that others wait for, for the log.
std::string describe_waited_for(const StepReport& report);
/// Returns whether transfers of one host take more than twice as long as those of the other hosts; false if unmeasured.
bool has_slow_link(const StepReport& report);
/// Returns a sentence about the host with the slow link, which must have been measured, for the log.
std::string describe_slow_link(const StepReport& report);

/// Measures each step on each rank: time of work (batch, forward, backward, optimiser) and time of waiting for other
/// ranks.
///   begin_step();  enter("loader");  working_on(name);  …  waited(seconds);  …  end_step();
/// Only report() sends messages: the waits of each rank's steps to all. If communication takes more than a fifth of the
/// steps on three hosts or more, it also sends LinkReport::kBytes from each host to all, at most once a minute.
class StepMonitor {
 public:
  using Clock = std::chrono::steady_clock;

  /// `profiler` records the phases of each step as spans; it may be null. `host` is the name of this rank's host.
  explicit StepMonitor(Profiler* profiler = nullptr, std::string host = host_name())
      : profiler_(profiler), host_(std::move(host)) {}

  /// Starts the time of a step.
  void begin_step();
  /// Ends the current phase of the step and begins phase `name`. Only the profiler records phases.
  void enter(const char* name);
  /// Sets the name of the largest group that this rank computes in this step.
  void working_on(const std::string& group) { group_ = group; }
  /// Adds a time that this rank waited for gradients or other messages of the other ranks.
  void waited(double seconds) { wait_ += seconds; }
  /// Ends the step and its current phase. The time that was not waited counts as work.
  void end_step();

  /// Returns the report on the steps since the last call. All ranks call it after the same step, and get equal values.
  StepReport report(comm::Communicator& comm);

 private:
  Profiler* profiler_;
  std::string host_;
  std::optional<Clock::time_point> probed_;  // last measurement of the links
  bool in_phase_ = false;
  Clock::time_point begin_;
  double wait_ = 0;  // seconds, in the current step
  std::string group_;

  double cpu_seconds_ = process_usage().cpu_seconds;  // CPU time of this process at the last report
  Clock::time_point reported_ = Clock::now();

  std::vector<double> waits_;  // seconds, one for each step
  double busy_ = 0, longest_ = 0;
  std::string longest_group_;
};

}  // namespace foretime::worker
