#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/process.h"
#include "worker/step/events.h"
#include "worker/step/run_context.h"

namespace foretime::worker {

/// Evaluates the model of a run, with its averaged weights (if any) and the tie thresholds of its scores.
class ModelEvaluation {
 public:
  /// Keeps references. `events` receive the numbers of scored candidates.
  ModelEvaluation(RunContext& run, TrainingListener& events) : run_(run), events_(events) {}

  /// Returns the metrics of some of the sets holdout, valid and test. All ranks call it.
  Evaluation evaluate(const std::vector<std::string>& sets);
  /// Returns the metrics of the constant baseline. All ranks call it.
  Evaluation evaluate_constant() const;
  /// Fits the tie thresholds of the current model and stores them in the run's state
  /// (trainer.tie_threshold_candidates). All ranks call it.
  void fit_thresholds();
  /// Marks the tie thresholds as outdated, so that the next evaluation fits them again.
  void weights_changed() { thresholds_fitted_ = false; }

 private:
  RunContext& run_;
  TrainingListener& events_;
  bool thresholds_fitted_ = false;
};

/// Writes a run's checkpoints and resumes from them. All ranks make every call.
class RunCheckpoints {
 public:
  /// Keeps references. `evaluation` fits the tie thresholds of checkpoints; `events` receive each checkpoint.
  RunCheckpoints(RunContext& run, ModelEvaluation& evaluation, TrainingListener& events)
      : run_(run), evaluation_(evaluation), events_(events) {}

  /// Resumes from the checkpoint that checkpoint.resume selects, if there is one.
  void resume();
  /// Writes the state after `step` steps, unless it has been written. Throws coordinator::RunError if the ranks'
  /// weights differ (checkpoint.compare_replicas).
  void save(int64_t step);
  /// Returns the seconds since the last checkpoint, or since this process began with the run.
  double seconds_since_save() const { return steady_seconds() - saved_at_; }
  /// Loads the weights of the best checkpoint into the model, unless it is that of `step`, the last one. Returns false
  /// on rank 0 if that checkpoint is damaged: a warning was logged, and the model still has the weights of `step`.
  /// Throws StorageError if the storage failed, possibly for a short time.
  bool restore_best(int64_t step);

 private:
  void restore(const coordinator::StoredCheckpoint& checkpoint);
  void restore_average(const coordinator::StoredCheckpoint& checkpoint);
  void restore_history(const coordinator::StoredCheckpoint& checkpoint);
  /// Copies the best checkpoint of the run that this one continues to this run's folder.
  void carry_over_best(const std::filesystem::path& checkpoint);

  RunContext& run_;
  ModelEvaluation& evaluation_;
  TrainingListener& events_;
  int64_t saved_step_ = -1;
  double saved_at_ = steady_seconds();
};

}  // namespace foretime::worker
