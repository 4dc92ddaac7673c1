#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "configs/settings.h"
#include "worker/run/display.h"
#include "worker/step/trainer.h"

namespace foretime::worker {

struct TrainOptions {
  TrainingListener* listener = nullptr;  // receives all events, next to the progress display; may be null
  bool metric_required = false;          // see TrainerOptions
  bool profile = false;                  // writes trace.json and profile.txt, and prints the latter
  bool tensorboard = true;               // writes event files for TensorBoard
  bool evaluate_constant = false;        // evaluates the constant baseline too
};

/// Trains one model in settings.run.directory, or continues the run there, with progress on stderr; all ranks call it.
/// Adds the rows of the model and the constant baseline to `rows`. Leaves resources.json (coordinator/run_directory.h).
/// Returns the number of steps, or nullopt if the run was pre-empted.
std::optional<int64_t> train_model(const configs::Settings& settings, comm::Communicator& comm,
                                   const TrainOptions& options, std::vector<NamedEvaluation>& rows);

}  // namespace foretime::worker
