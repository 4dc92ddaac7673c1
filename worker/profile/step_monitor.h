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

/// Describes the slowest network link, measured if communication takes a large part of the steps.
struct LinkReport {
  std::string host;   // host whose data take longest
  double ms = 0;      // time for kBytes to or from another host, the slower direction; median over the other hosts
  double others = 0;  // median of `ms` over the other hosts
  double ratio() const { return others > 0 ? ms / others : 1; }
  static constexpr int64_t kBytes = 256 << 10;
};

/// Describes the work and the waits of all ranks between two reports.
struct StepReport {
  int64_t steps = 0;
  /// Mean over steps of the shortest wait of any rank. That rank arrived last, so only the transport delayed it: this
  /// is the time that communication adds to a step.
  double comm_exposed_ms = 0;
  /// Mean over steps of the longest wait of any rank: the cost of communication and unequal work together.
  double comm_wait_ms = 0;
  /// Ratio of comm_exposed_ms to the mean step time of the slowest rank, waits included.
  double comm_exposed_share = 0;
  int straggler_rank = 0;       // rank with the longest time of own work
  std::string straggler_group;  // largest group of the straggler's longest step; empty if it had no work
  double straggler_ratio = 1;   // straggler's time of work / mean over all ranks; 1 if no rank worked
  /// Host (with a single host: rank) that arrived last and for which all others waited longest in total. Empty if there
  /// is one rank or no rank waited.
  std::string waited_for;
  double waited_for_share = 0;       // part of the steps in which it arrived last
  double waited_for_ms = 0;          // mean over steps of the shortest wait of another rank for it
  double step_ms = 0;                // mean step time of the slowest rank, waits included
  std::optional<LinkReport> link{};  // nullopt: links were not measured
  double memory_mib = 0;             // resident memory of all ranks, now
  double cpu_cores = 0;              // CPU cores that all ranks kept busy since the last report
  double gpu_percent = -1;           // mean over the ranks' GPUs; -1: no rank has a GPU that reports it
  double gpu_memory_mib = 0;         // memory in use on these GPUs, summed
};

/// Returns the report as fields of a line of metrics.jsonl: comm_exposed_ms, comm_wait_ms, comm_exposed_share,
/// straggler_rank, straggler_group, straggler_ratio, waited_for, waited_for_share, waited_for_ms, memory_mib,
/// cpu_cores; gpu_percent and gpu_memory_mib if ranks have GPUs; slow_link and slow_link_ratio if links were measured.
nlohmann::json to_json(const StepReport& report);

/// Returns whether the slowest rank works longer than the mean by a fifth, which deserves a warning.
bool is_straggling(const StepReport& report);
/// Returns the text of that warning.
std::string describe_straggler(const StepReport& report);
/// Returns whether waiting for one host (or rank) takes a fifth of the steps.
bool is_waited_for(const StepReport& report);
/// Returns the text of a warning about the host (or rank) that others wait for.
std::string describe_waited_for(const StepReport& report);
/// Returns whether the data of one host take twice as long as those of the other hosts.
bool has_slow_link(const StepReport& report);
/// Returns the text of a warning about the host with the slow link.
std::string describe_slow_link(const StepReport& report);

/// Measures each step on each rank: time of work (batch, forward, backward, optimiser) and time of waiting for other
/// ranks.
///   begin_step();  enter("loader");  working_on(name);  …  waited(seconds);  …  end_step();
/// Only `report` sends messages: each rank sends the waits of its steps to all. If communication takes a fifth of the
/// steps on three hosts or more, it also sends LinkReport::kBytes from each host to all others, once a minute.
class StepMonitor {
 public:
  using Clock = std::chrono::steady_clock;

  /// `profiler` records the phases of each step as spans; it may be null. `host` is the name of this rank's host.
  explicit StepMonitor(Profiler* profiler = nullptr, std::string host = host_name())
      : profiler_(profiler), host_(std::move(host)) {}

  void begin_step();
  /// Ends the current phase of the step and begins phase `name`.
  void enter(const char* name);
  /// Sets the name of the largest group that this rank computes in this step.
  void working_on(const std::string& group) { group_ = group; }
  /// Adds a time that this rank waited for gradients or other messages of the other ranks.
  void waited(double seconds) { wait_ += seconds; }
  void end_step();

  /// Returns the report on the steps since the last report. All ranks call it after the same step, and get the same
  /// values.
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
