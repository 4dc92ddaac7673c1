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

/// How fast data leave and reach each host, measured where communication takes a good part of the steps.
struct LinkReport {
  std::string host;   // whose data take longest
  double ms = 0;      // for kBytes to another host, or from it, whichever is slower: medians over the other hosts
  double others = 0;  // the median of that over the other hosts
  double ratio() const { return others > 0 ? ms / others : 1; }
  static constexpr int64_t kBytes = 256 << 10;
};

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
  /// The host, or the rank where there is one host, that came last so that all others waited for it: the one for which
  /// they waited longest in all. Empty: there is one rank, or nobody waited.
  std::string waited_for;
  double waited_for_share = 0;       // of the steps: those in which it came last
  double waited_for_ms = 0;          // mean over steps that each of the others waited for it at least
  double step_ms = 0;                // mean time of a step of the slowest rank, waits included
  std::optional<LinkReport> link{};  // where it was measured
  double memory_mib = 0;             // resident now, of all ranks together
  double cpu_cores = 0;              // that all ranks together kept busy, since the last report
  double gpu_percent = -1;           // mean over the ranks' GPUs; below 0: no rank has one that can be asked
  double gpu_memory_mib = 0;         // in use on these, together
};

/// The report as fields of a line of metrics.jsonl: comm_exposed_ms, comm_wait_ms, comm_exposed_share, straggler_rank,
/// straggler_group, straggler_ratio, waited_for, waited_for_share, waited_for_ms, memory_mib, cpu_cores; gpu_percent
/// and gpu_memory_mib where ranks have GPUs; slow_link and slow_link_ratio where links were measured.
nlohmann::json to_json(const StepReport& report);

/// The slowest rank works so much longer than the mean (a fifth) that somebody should look.
bool is_straggling(const StepReport& report);
std::string describe_straggler(const StepReport& report);
/// Waiting for one host (or rank) takes a fifth of the steps.
bool is_waited_for(const StepReport& report);
std::string describe_waited_for(const StepReport& report);
/// One host's data take twice as long as those of the others.
bool has_slow_link(const StepReport& report);
std::string describe_slow_link(const StepReport& report);

/// Measures each step on each rank: time at work (its batch, forward, backward, optimiser) and time in wait for others.
///   begin_step();  enter("loader");  working_on(name);  …  waited(seconds);  …  end_step();
/// Costs no messages but those of `report`: the waits of the steps, which each rank sends to all. Where communication
/// takes a fifth of the steps on three hosts or more, also LinkReport::kBytes from each host to all, once a minute.
class StepMonitor {
 public:
  using Clock = std::chrono::steady_clock;

  /// `profiler`, where there is one, records the phases of each step as spans. `host` is this rank's.
  explicit StepMonitor(Profiler* profiler = nullptr, std::string host = host_name())
      : profiler_(profiler), host_(std::move(host)) {}

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
  std::string host_;
  std::optional<Clock::time_point> probed_;  // links
  bool in_phase_ = false;
  Clock::time_point begin_;
  double wait_ = 0;  // seconds, of the current step
  std::string group_;

  double cpu_seconds_ = process_usage().cpu_seconds;  // of this process, at the last report
  Clock::time_point reported_ = Clock::now();

  std::vector<double> waits_;  // seconds, one for each step
  double busy_ = 0, longest_ = 0;
  std::string longest_group_;
};

}  // namespace foretime::worker
