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
  TrainingListener* listener = nullptr;  // hears all events beside the progress display; may be null
  bool metric_required = false;          // as in TrainerOptions
  bool profile = false;                  // trace.json and profile.txt are written, and the latter printed
  bool tensorboard = true;               // event files are written
  bool evaluate_constant = false;        // the constant baseline is evaluated too
};

/// Trains one model in settings.run.directory, or continues what is there, with progress on stderr; all ranks call it.
/// Adds its row, and the constant baseline's. Leaves resources.json (coordinator/run_directory.h). Empty where it was
/// pre-empted, else the number of steps.
std::optional<int64_t> train_model(const configs::Settings& settings, comm::Communicator& comm,
                                   const TrainOptions& options, std::vector<NamedEvaluation>& rows);

}  // namespace foretime::worker
