#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "configs/settings.h"
#include "coordinator/checkpoint_store.h"
#include "coordinator/early_stop.h"
#include "models/losses/losses.h"
#include "models/model.h"
#include "models/safetensors.h"
#include "worker/state/optimizer.h"

namespace foretime::worker {

/// Tie thresholds of a model's scores (models/metrics/tie_thresholds.h) on the graphs that it was trained on, by
/// data::graph_fingerprint. A model that meets one of these graphs again, with other candidates, knows which of their
/// scores differ by noise only; of other graphs nothing is known.
using TieThresholds = std::map<uint64_t, std::vector<double>>;

/// All that a run needs to go on bit for bit: the files of a checkpoint are model.safetensors, optimizer.safetensors
/// and state.json; history.safetensors of segments and average.safetensors of averaged weights, where there are such.
struct TrainingState {
  int64_t step = 0;  // optimiser steps done
  models::InputSchema schema;
  models::TargetTransform targets;
  configs::Settings settings;
  uint64_t data_fingerprint = 0;
  std::string columns;            // data::columns_text of what it was trained on; empty: no tables
  TieThresholds tie_thresholds;   // of the model that a checkpoint gives out
  double train_mean_runtime = 0;  // of the training candidates, the baseline's prediction
};

/// Parameters and buffers by name.
NamedTensors model_tensors(const models::CostModel& model);

/// The files of a checkpoint. The same state gives the same bytes.
std::map<std::string, std::string> checkpoint_files(const TrainingState& state, const models::CostModel& model,
                                                    const Adam& optimizer, const coordinator::EarlyStop& early_stop);

/// Reads what state.json says. Throws coordinator::RunError naming the checkpoint.
TrainingState read_state(const coordinator::StoredCheckpoint& checkpoint);

/// Reads a safetensors file of a checkpoint. Throws coordinator::RunError.
models::Safetensors parse_tensors(const std::string& file, const std::string& origin);

/// Copies stored values into tensors of a model. Throws coordinator::RunError, starting with `origin` and before
/// anything is changed, where names, types or shapes are those of another model.
void copy_tensors(const models::Safetensors& stored, const NamedTensors& own, const std::string& origin);

/// Puts the weights that training goes on with into the model. Throws coordinator::RunError where names or shapes are
/// those of another model.
void restore_model(const coordinator::StoredCheckpoint& checkpoint, models::CostModel& model);

/// Puts the weights into the model that it is judged and used with: the averaged ones where the checkpoint has such,
/// else those of restore_model. Throws as restore_model.
void restore_final_model(const coordinator::StoredCheckpoint& checkpoint, models::CostModel& model);

/// Restores the optimiser and early stopping. Throws coordinator::RunError.
void restore_progress(const coordinator::StoredCheckpoint& checkpoint, Adam& optimizer,
                      coordinator::EarlyStop& early_stop);

/// A model as a checkpoint holds it, with its settings and transforms: what `evaluate` and `rank` load. Its weights are
/// those of restore_final_model.
struct TrainedModel {
  std::shared_ptr<models::CostModel> model;
  TrainingState state;
};
TrainedModel load_trained_model(const coordinator::StoredCheckpoint& checkpoint);

/// One message for a checkpoint on its way between ranks.
std::string serialize(const coordinator::StoredCheckpoint& checkpoint);
coordinator::StoredCheckpoint parse_stored_checkpoint(const std::string& bytes);

}  // namespace foretime::worker
