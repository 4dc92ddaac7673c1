#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/process.h"
#include "worker/step/events.h"
#include "worker/step/run_context.h"

namespace foretime::worker {

/// Evaluates the model of a run, with averaged weights if there are any, and with tie thresholds.
class ModelEvaluation {
 public:
  /// Keeps references. `events` receives the numbers of scored candidates (on_scored).
  ModelEvaluation(RunContext& run, TrainingListener& events) : run_(run), events_(events) {}

  /// Evaluates the model on `sets`, some of holdout, valid and test, after fit_thresholds(). All ranks call it.
  Evaluation evaluate(const std::vector<std::string>& sets);
  /// Evaluates the constant baseline on holdout, valid and test. All ranks call it.
  Evaluation evaluate_constant() const;
  /// Fits the tie thresholds of the current model (trainer.tie_threshold_candidates) and stores them in the run's
  /// state. Does nothing if the setting is 0 or the thresholds were fitted to these weights. All ranks call it.
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
  /// Keeps references. `evaluation` fits the tie thresholds of checkpoints; `events` receives each checkpoint.
  RunCheckpoints(RunContext& run, ModelEvaluation& evaluation, TrainingListener& events)
      : run_(run), evaluation_(evaluation), events_(events) {}

  /// Resumes from the checkpoint that checkpoint.resume selects, if there is one, or from another intact one of that
  /// run. Throws configs::SettingsError if checkpoint.resume is never and the run has checkpoints;
  /// coordinator::RunError if the checkpoint is of other data or none is intact.
  void resume();
  /// Writes the checkpoint after `step` steps, unless that was the last one written, and prunes older ones. Throws
  /// coordinator::RunError if the ranks' weights differ (checkpoint.compare_replicas).
  void save(int64_t step);
  /// Returns the seconds since this process last wrote a checkpoint, or else since the construction.
  double seconds_since_save() const { return steady_seconds() - saved_at_; }
  /// Loads the weights of the best checkpoint, if it is kept and not that of `step`, the last one, into the model.
  /// Returns false on rank 0, with a warning in the log and the weights of `step`, if the best checkpoint is damaged or
  /// missing; else true. Throws StorageError if the storage failed.
  bool restore_best(int64_t step);

 private:
  /// Restores all state of the run from a checkpoint.
  void restore(const coordinator::StoredCheckpoint& checkpoint);
  void restore_average(const coordinator::StoredCheckpoint& checkpoint);
  void restore_history(const coordinator::StoredCheckpoint& checkpoint);
  /// Copies the best checkpoint from the folder of `checkpoint`, which is another run's, to this run.
  void carry_over_best(const std::filesystem::path& checkpoint);

  RunContext& run_;
  ModelEvaluation& evaluation_;
  TrainingListener& events_;
  int64_t saved_step_ = -1;
  double saved_at_ = steady_seconds();
};

}  // namespace foretime::worker
