#pragma once

#include <optional>
#include <string>

#include "configs/settings.h"
#include "history/tensorboard/event_file.h"
#include "worker/step/events.h"

namespace foretime::worker {

/// Writes a training's events for TensorBoard to its run directory, on rank 0: reports and evaluations as scalars, the
/// settings as text and as the run's parameters, and for each evaluated set the distributions of scores, run times and
/// place errors. A training that resumes from a checkpoint continues its event files.
class TensorBoardLog final : public TrainingListener {
 public:
  /// Keeps the reference to `settings`. Writes nothing before the first event.
  explicit TensorBoardLog(const configs::Settings& settings) : settings_(settings) {}
  void on_step(const StepEvent& event) override;
  void on_evaluation(const EvaluationEvent& event) override;
  void on_checkpoint(const CheckpointEvent& event) override;
  void on_end(const EndEvent& event) override;

 private:
  tensorboard::EventFile& file(int64_t step);

  const configs::Settings& settings_;
  std::optional<tensorboard::EventFile> file_;
};

/// Returns the parameters that runs are compared by: those of the sweep if an agent has left them in the run directory
/// (parameters.json), else the settings that differ from their defaults.
tensorboard::Parameters parameters_of(configs::Settings settings);

/// Holds values of one evaluated set, over all groups and the candidates that ran: scores and logarithms of run times,
/// both with mean 0 and deviation 1 in each group, and place errors: predicted minus measured place, divided by the
/// group's size (-1 to 1).
struct ScoreDistributions {
  std::vector<double> scores = {}, log_runtimes = {}, place_errors = {};
};
/// Returns the distributions of the set `set`.
ScoreDistributions distributions_of(const Evaluation& evaluation, const std::string& set);

}  // namespace foretime::worker
