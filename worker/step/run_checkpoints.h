#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/process.h"
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

/// Writes a run's checkpoints and continues from them. All ranks make every call.
class RunCheckpoints {
 public:
  /// Keeps references. `evaluation` gives the tie thresholds that go into checkpoints, `events` are told of each.
  RunCheckpoints(RunContext& run, ModelEvaluation& evaluation, TrainingListener& events)
      : run_(run), evaluation_(evaluation), events_(events) {}

  /// Continues where checkpoint.resume says, if there is something to continue.
  void resume();
  /// Writes the state after `step` steps, unless that has been written. Throws coordinator::RunError where the ranks'
  /// weights differ (checkpoint.compare_replicas).
  void save(int64_t step);
  /// Seconds since a checkpoint was written, or since this process began with the run.
  double seconds_since_save() const { return steady_seconds() - saved_at_; }
  /// Makes the weights of the best checkpoint the model's, unless it is that of `step`, the last one. False, in rank 0:
  /// it is damaged, a warning has said so, and the model is still that of `step`. Throws StorageError where the storage
  /// failed, which may pass.
  bool restore_best(int64_t step);

 private:
  void restore(const coordinator::StoredCheckpoint& checkpoint);
  void restore_average(const coordinator::StoredCheckpoint& checkpoint);
  void restore_history(const coordinator::StoredCheckpoint& checkpoint);
  void carry_over_best(const std::filesystem::path& checkpoint);

  RunContext& run_;
  ModelEvaluation& evaluation_;
  TrainingListener& events_;
  int64_t saved_step_ = -1;
  double saved_at_ = steady_seconds();
};

}  // namespace foretime::worker
