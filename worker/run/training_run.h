#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "configs/settings.h"
#include "worker/run/table.h"
#include "worker/step/trainer.h"

namespace foretime::worker {

/// Trains one model in settings.run.directory, or continues what is there, with progress on stderr; all ranks call it.
/// Adds its row, and the constant baseline's where `mean` is set. `profile`: trace.json and profile.txt are written,
/// and the latter printed. Leaves resources.json (cli/run_resources.h). Empty where it was pre-empted, else the number
/// of steps.
std::optional<int64_t> train_model(const configs::Settings& settings, comm::Communicator& comm,
                                   worker::TrainerEvents events, bool mean, bool profile,
                                   std::vector<NamedEvaluation>& rows);

}  // namespace foretime::worker
