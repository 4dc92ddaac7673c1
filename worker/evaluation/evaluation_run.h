#pragma once

#include <filesystem>

#include "worker/evaluation/evaluator.h"
#include "worker/state/training_state.h"

namespace foretime::worker {

/// A checkpoint read by rank 0 and handed to all, with its model on `device`. All ranks call it.
TrainedModel load_for_all(const std::filesystem::path& checkpoint, comm::Communicator& comm, torch::Device device);

/// Evaluates a trained model on the groups of `settings.data`, sharded over the ranks; graphs are pruned and cut as in
/// its training, whatever `settings` say of that. `sets` as in evaluate(),
/// `on_scored` as in model_scorer(). Throws data::DataError; coordinator::RunError where the data do not have the
/// inputs that the model was trained on.
Evaluation evaluate_trained(const TrainedModel& trained, const configs::Settings& settings,
                            const std::vector<std::string>& sets, comm::Communicator& comm, torch::Device device,
                            std::function<void(int64_t)> on_scored = {});

}  // namespace foretime::worker
