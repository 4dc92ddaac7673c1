#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "configs/settings.h"
#include "coordinator/checkpoint_store.h"
#include "coordinator/early_stop.h"
#include "models/model.h"
#include "models/targets.h"
#include "worker/optimizer.h"

namespace foretime::worker {

/// All that a run needs to go on bit for bit: the files of a checkpoint are model.safetensors, optimizer.safetensors
/// and state.json.
struct TrainingState {
  int64_t step = 0;  // optimiser steps done
  models::InputSchema schema;
  models::TargetTransform targets;
  configs::Settings settings;
  uint64_t data_fingerprint = 0;
  double train_mean_runtime = 0;  // of the training candidates, the baseline's prediction
};

/// Parameters and buffers by name.
NamedTensors model_tensors(const models::CostModel& model);

/// The files of a checkpoint. The same state gives the same bytes.
std::map<std::string, std::string> checkpoint_files(const TrainingState& state, const models::CostModel& model,
                                                    const Adam& optimizer, const coordinator::EarlyStop& early_stop);

/// Reads what state.json says. Throws coordinator::RunError naming the checkpoint.
TrainingState read_state(const coordinator::StoredCheckpoint& checkpoint);

/// Puts a checkpoint's tensors into the model. Throws coordinator::RunError where names or shapes are those of another
/// model.
void restore_model(const coordinator::StoredCheckpoint& checkpoint, models::CostModel& model);

/// Likewise for the optimiser and early stopping.
void restore_progress(const coordinator::StoredCheckpoint& checkpoint, Adam& optimizer,
                      coordinator::EarlyStop& early_stop);

/// A model as a checkpoint holds it, with its settings and transforms: what `evaluate` and `rank` load.
struct TrainedModel {
  std::shared_ptr<models::CostModel> model;
  TrainingState state;
};
TrainedModel load_trained_model(const coordinator::StoredCheckpoint& checkpoint);

/// One message for a checkpoint on its way between ranks.
std::string serialize(const coordinator::StoredCheckpoint& checkpoint);
coordinator::StoredCheckpoint parse_stored_checkpoint(const std::string& bytes);

}  // namespace foretime::worker
