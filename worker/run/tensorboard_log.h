#pragma once

#include <optional>
#include <string>

#include "configs/settings.h"
#include "history/tensorboard/event_file.h"
#include "worker/step/events.h"

namespace foretime::worker {

/// Writes a training's events for TensorBoard to its run directory, on rank 0: reports and evaluations as scalars, the
/// settings as text and as the run's parameters, and the distributions of scores, run times and place errors for
/// holdout and valid. A training that resumes from a checkpoint continues the event files of the run.
class TensorBoardLog final : public TrainingListener {
 public:
  /// Keeps the reference to `settings`. Writes nothing before the first event.
  explicit TensorBoardLog(const configs::Settings& settings) : settings_(settings) {}
  void on_step(const StepEvent& event) override;
  void on_evaluation(const EvaluationEvent& event) override;
  void on_checkpoint(const CheckpointEvent& event) override;
  void on_end(const EndEvent& event) override;

 private:
  /// Returns the event file, which the first call opens for events from `step` on.
  tensorboard::EventFile& file(int64_t step);

  const configs::Settings& settings_;
  std::optional<tensorboard::EventFile> file_;
};

/// Returns the parameters by which TensorBoard compares runs: the texts in parameters.json of the run directory, which
/// an agent writes for a sweep's job; else all settings that differ from their defaults, except run.*.
tensorboard::Parameters parameters_of(configs::Settings settings);

/// Holds values of one evaluated set, one for each candidate that ran and has a finite score.
struct ScoreDistributions {
  std::vector<double> scores = {}, log_runtimes = {};  // scaled to mean 0 and deviation 1 in each group
  std::vector<double> place_errors = {};  // predicted minus measured place, each from 0 (fastest) to 1 in its group
};
/// Returns the distributions of the set `set` (holdout, valid, test) over all groups with run times.
ScoreDistributions distributions_of(const Evaluation& evaluation, const std::string& set);

}  // namespace foretime::worker
