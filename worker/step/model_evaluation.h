#pragma once

#include <string>
#include <vector>

#include "worker/step/events.h"
#include "worker/step/run_context.h"

namespace foretime::worker {

/// Evaluates the model of a run: with averaged weights where there are such, and with the tie thresholds of its scores.
class ModelEvaluation {
 public:
  /// Keeps references. `events` follow how many candidates are scored.
  ModelEvaluation(RunContext& run, TrainingListener& events) : run_(run), events_(events) {}

  /// Metrics of holdout, valid or test. All ranks call it.
  Evaluation evaluate(const std::vector<std::string>& sets);
  /// The metrics of the constant baseline. All ranks call it.
  Evaluation evaluate_constant() const;
  /// Puts the tie thresholds of the model as it is into the run's state (trainer.tie_threshold_candidates). All ranks
  /// call it.
  void fit_thresholds();
  /// The thresholds are to be fitted again before their next use.
  void weights_changed() { thresholds_fitted_ = false; }

 private:
  RunContext& run_;
  TrainingListener& events_;
  bool thresholds_fitted_ = false;
};

}  // namespace foretime::worker
