#pragma once

#include "worker/step/events.h"
#include "worker/step/run_context.h"

namespace foretime::worker {

/// Writes a run's events to its directory: metrics.jsonl, rankings.csv and the log. On rank 0.
class RunRecorder final : public TrainingListener {
 public:
  /// Keeps the reference.
  explicit RunRecorder(RunContext& run) : run_(run) {}
  void on_step(const StepEvent& event) override;
  void on_evaluation(const EvaluationEvent& event) override;
  void on_end(const EndEvent& event) override;

 private:
  RunContext& run_;
  int straggler_ = -1;  // the rank that was last logged as one
};

}  // namespace foretime::worker
