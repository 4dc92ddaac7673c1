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
/// data::graph_fingerprint. They show which scores differ only by noise, for any candidates of these graphs.
using TieThresholds = std::map<uint64_t, std::vector<double>>;

/// Holds the state of a run without its tensors. The files of a checkpoint, from which a run resumes bit for bit, are
/// model.safetensors, optimizer.safetensors and state.json; with segments history, with averages average.safetensors.
struct TrainingState {
  int64_t step = 0;  // number of finished optimiser steps
  models::InputSchema schema;
  models::TargetTransform targets;
  configs::Settings settings;
  uint64_t data_fingerprint = 0;  // sharding::DatasetIndex::fingerprint
  std::string columns;            // data::columns_text of the training data; "": the data are not tables
  TieThresholds tie_thresholds;   // thresholds of the model that restore_final_model gives
  double train_mean_runtime = 0;  // mean over the training candidates that ran; the constant baseline predicts it
};

/// Returns a model's parameters, then its buffers, with names. They share the model's memory.
NamedTensors model_tensors(const models::CostModel& model);

/// Returns the contents of model.safetensors, optimizer.safetensors and state.json by file name, which are equal for
/// equal states. Settings of run, comm and data.allowed_roots are stored as their defaults.
std::map<std::string, std::string> checkpoint_files(const TrainingState& state, const models::CostModel& model,
                                                    const Adam& optimizer, const coordinator::EarlyStop& early_stop);

/// Reads state.json of a checkpoint. Throws coordinator::RunError, naming the file, if it is missing or damaged;
/// coordinator::NewerFormat; configs::SettingsError if the stored settings are invalid.
TrainingState read_state(const coordinator::StoredCheckpoint& checkpoint);

/// Parses a safetensors file, which messages name `origin`. Throws coordinator::RunError if it is damaged.
models::Safetensors parse_tensors(const std::string& file, const std::string& origin);

/// Copies stored values into the tensors `own` of a model. Throws coordinator::RunError, naming `origin` and before any
/// change, if the names, types or shapes differ.
void copy_tensors(const models::Safetensors& stored, const NamedTensors& own, const std::string& origin);

/// Restores the parameters and buffers with which training continues. Throws coordinator::RunError if model.safetensors
/// is missing or damaged, or its tensors differ in name, type or shape from the model's.
void restore_model(const coordinator::StoredCheckpoint& checkpoint, models::CostModel& model);

/// Restores the weights that the model is evaluated and used with: the averaged weights if the checkpoint has them,
/// else those of restore_model. Throws as restore_model does.
void restore_final_model(const coordinator::StoredCheckpoint& checkpoint, models::CostModel& model);

/// Restores the optimiser and early stopping. Throws coordinator::RunError if optimizer.safetensors or state.json is
/// missing or damaged, or the moments of a parameter are missing; coordinator::NewerFormat.
void restore_progress(const coordinator::StoredCheckpoint& checkpoint, Adam& optimizer,
                      coordinator::EarlyStop& early_stop);

/// Holds a trained model, in evaluation mode, with the settings and transforms of its training. The weights are those
/// of restore_final_model, or of a bundle.
struct TrainedModel {
  std::shared_ptr<models::CostModel> model;
  TrainingState state;
};
/// Loads the model of a checkpoint on the CPU. Throws as read_state, make_model and restore_final_model do.
TrainedModel load_trained_model(const coordinator::StoredCheckpoint& checkpoint);

/// Returns a checkpoint as bytes for other ranks.
std::string serialize(const coordinator::StoredCheckpoint& checkpoint);
/// Parses the result of `serialize`.
coordinator::StoredCheckpoint parse_stored_checkpoint(const std::string& bytes);

}  // namespace foretime::worker
