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

/// Holds tie thresholds of a model's scores (metrics/tie_thresholds.h) on its training graphs, by
/// data::graph_fingerprint. With them the model can rank other candidates of these graphs and report which scores
/// differ only by noise. Other graphs have no thresholds.
using TieThresholds = std::map<uint64_t, std::vector<double>>;

/// Holds the state of a run, which resumes from it bit for bit. The files of a checkpoint are model.safetensors,
/// optimizer.safetensors and state.json; history.safetensors with segments, and average.safetensors with averaged
/// weights.
struct TrainingState {
  int64_t step = 0;  // optimiser steps done
  models::InputSchema schema;
  models::TargetTransform targets;
  configs::Settings settings;
  uint64_t data_fingerprint = 0;
  std::string columns;            // data::columns_text of the training data; "": the data are not tables
  TieThresholds tie_thresholds;   // thresholds of the model that restore_final_model gives
  double train_mean_runtime = 0;  // mean over the training candidates, which the constant baseline predicts
};

/// Returns a model's parameters and buffers by name.
NamedTensors model_tensors(const models::CostModel& model);

/// Returns the contents of a checkpoint's files by name. Equal states give equal bytes.
std::map<std::string, std::string> checkpoint_files(const TrainingState& state, const models::CostModel& model,
                                                    const Adam& optimizer, const coordinator::EarlyStop& early_stop);

/// Reads state.json. Throws coordinator::RunError naming the checkpoint.
TrainingState read_state(const coordinator::StoredCheckpoint& checkpoint);

/// Parses a safetensors file of a checkpoint. Throws coordinator::RunError.
models::Safetensors parse_tensors(const std::string& file, const std::string& origin);

/// Copies stored values into tensors of a model. Throws coordinator::RunError, starting with `origin` and before any
/// change, if names, types or shapes differ.
void copy_tensors(const models::Safetensors& stored, const NamedTensors& own, const std::string& origin);

/// Restores the weights that training continues with. Throws coordinator::RunError if names or shapes differ from the
/// model's.
void restore_model(const coordinator::StoredCheckpoint& checkpoint, models::CostModel& model);

/// Restores the weights that the model is evaluated and used with: the averaged weights if the checkpoint has them,
/// else those of restore_model. Throws as restore_model does.
void restore_final_model(const coordinator::StoredCheckpoint& checkpoint, models::CostModel& model);

/// Restores the optimiser and early stopping. Throws coordinator::RunError.
void restore_progress(const coordinator::StoredCheckpoint& checkpoint, Adam& optimizer,
                      coordinator::EarlyStop& early_stop);

/// Holds a model of a checkpoint with its settings and transforms, as `evaluate` and `rank` load it. Its weights are
/// those of restore_final_model.
struct TrainedModel {
  std::shared_ptr<models::CostModel> model;
  TrainingState state;
};
/// Loads the model of a checkpoint. Throws coordinator::RunError.
TrainedModel load_trained_model(const coordinator::StoredCheckpoint& checkpoint);

/// Serialises a checkpoint into one message for other ranks.
std::string serialize(const coordinator::StoredCheckpoint& checkpoint);
/// Parses the result of `serialize`.
coordinator::StoredCheckpoint parse_stored_checkpoint(const std::string& bytes);

}  // namespace foretime::worker
