#pragma once

#include <cstdint>
#include <filesystem>

#include "worker/step/events.h"
#include "worker/step/model_evaluation.h"
#include "worker/step/run_context.h"

namespace foretime::worker {

/// Writes a run's checkpoints and continues from them. All ranks make every call.
class RunCheckpoints {
 public:
  /// Keeps references. `evaluation` gives the tie thresholds that go into checkpoints, `events` are told of each.
  RunCheckpoints(RunContext& run, ModelEvaluation& evaluation, TrainingListener& events)
      : run_(run), evaluation_(evaluation), events_(events) {}

  /// Continues where checkpoint.resume says, if there is something to continue.
  void resume();
  /// Writes the state after `step` steps, unless that has been written.
  void save(int64_t step);
  /// Makes the weights of the best checkpoint the model's, unless it is that of `step`.
  void restore_best(int64_t step);

 private:
  void restore(const coordinator::StoredCheckpoint& checkpoint);
  void restore_average(const coordinator::StoredCheckpoint& checkpoint);
  void restore_history(const coordinator::StoredCheckpoint& checkpoint);
  void carry_over_best(const std::filesystem::path& checkpoint);

  RunContext& run_;
  ModelEvaluation& evaluation_;
  TrainingListener& events_;
  int64_t saved_step_ = -1;
};

}  // namespace foretime::worker
