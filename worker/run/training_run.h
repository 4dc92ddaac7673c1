#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "configs/settings.h"
#include "worker/run/display.h"
#include "worker/step/trainer.h"

namespace foretime::worker {

/// Holds options of train_model that are no settings.
struct TrainOptions {
  TrainingListener* listener = nullptr;  // receives all events; may be null
  bool metric_required = false;          // see TrainerOptions
  bool profile = false;                  // writes trace.json and profile.txt, and prints the table of profile.txt
  bool tensorboard = true;               // writes event files for TensorBoard
  bool evaluate_constant = false;        // adds a row of the constant baseline
};

/// Trains one model in settings.run.directory, or continues the run there, with progress on stderr. All ranks call it.
/// Adds the evaluations of the model and, with options.evaluate_constant, of the constant baseline ("mean") to `rows`.
/// Writes resources.json. Returns the number of steps; nullopt, without rows, if the run was pre-empted.
std::optional<int64_t> train_model(const configs::Settings& settings, comm::Communicator& comm,
                                   const TrainOptions& options, std::vector<NamedEvaluation>& rows);

}  // namespace foretime::worker
