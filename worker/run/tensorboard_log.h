#pragma once

#include <optional>
#include <string>

#include "configs/settings.h"
#include "history/tensorboard/event_file.h"
#include "worker/step/events.h"

namespace foretime::worker {

/// Writes a training's events for TensorBoard to its run directory, on rank 0: each report and evaluation as scalars,
/// the settings as text and as the parameters of the run, and of each evaluated set how scores, run times and the
/// places of candidates are distributed. A training that goes on from a checkpoint goes on with them.
class TensorBoardLog final : public TrainingListener {
 public:
  /// Keeps the reference. Writes nothing before the first event.
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

/// What the run is compared by: the sweep's parameters where an agent has left them in the run directory
/// (parameters.json), else the settings that differ from their defaults.
tensorboard::Parameters parameters_of(configs::Settings settings);

/// Of one evaluated set, over all groups and the candidates that ran: each one's score and logarithm of its run time,
/// both with mean 0 and deviation 1 in their group, and its predicted less its measured place, as a part of the group:
/// -1 to 1.
struct ScoreDistributions {
  std::vector<double> scores = {}, log_runtimes = {}, place_errors = {};
};
ScoreDistributions distributions_of(const Evaluation& evaluation, const std::string& set);

}  // namespace foretime::worker
