#pragma once

#include <chrono>
#include <cstdint>

#include "worker/step/events.h"
#include "worker/step/run_context.h"
#include "worker/step/training_step.h"

namespace foretime::worker {

/// Makes the events of the steps of a run, with a report where one is due. The clock starts with it.
class StepReports {
 public:
  using Clock = StepMonitor::Clock;

  explicit StepReports(RunContext& run) : run_(run) {}

  /// Of `step` steps that are done (1, 2, …). All ranks call it; the report holds values of all ranks.
  StepEvent event(int64_t step, const StepTotals& totals, TrainingStep& training);
  /// Time that does not count as training.
  void exclude(Clock::duration time) { reported_ += time; }
  /// trainer.metric at an evaluation, for the reports that follow.
  void set_metric(double value) { metric_ = value; }

 private:
  RunContext& run_;
  StepTimer timer_;
  Clock::time_point started_ = Clock::now(), reported_ = started_;
  double candidates_ = 0;  // trained on by all ranks since the last report
  std::optional<double> metric_;
};

}  // namespace foretime::worker
