#pragma once

#include <cstdint>
#include <limits>
#include <memory>

#include <spdlog/logger.h>

#include "comm/communicator.h"
#include "configs/settings.h"
#include "coordinator/early_stop.h"
#include "coordinator/run_directory.h"
#include "models/model.h"
#include "sharding/shard_plan.h"
#include "worker/batches/batch.h"
#include "worker/evaluation/evaluator.h"
#include "worker/profile/profiler.h"
#include "worker/state/optimizer.h"
#include "worker/state/training_state.h"
#include "worker/state/weight_average.h"
#include "worker/store/group_store.h"

namespace foretime::worker {

/// Holds one rank's state of a training run: its part of the data, the model and the state of the training.
struct RunContext {
  /// Loads no data and makes no model. `profiler` may be null. Throws comm::CommError as choose_device does.
  RunContext(const configs::Settings& settings, comm::Communicator& comm, spdlog::logger& log, Profiler* profiler);

  bool root() const { return comm.rank() == 0; }
  /// Returns the number of optimiser steps: of trainer.steps and trainer.epochs the fewer. Needs load_data.
  int64_t total_steps() const;
  ShardedData data() const { return {index, plan, *store, comm}; }

  const configs::Settings settings;
  comm::Communicator& comm;
  spdlog::logger& log;
  Profiler* const profiler;
  const torch::Device device;

  sharding::DatasetIndex index;
  sharding::ShardPlan plan;
  std::unique_ptr<GroupStore> store;
  std::unique_ptr<coordinator::RunDirectory> directory;  // null except on rank 0
  std::shared_ptr<models::CostModel> model;
  std::unique_ptr<ForwardPass> forward;
  TrainingState state;
  std::unique_ptr<Adam> optimizer;
  std::unique_ptr<WeightAverage> average;  // null: the last weights are evaluated
  coordinator::EarlyStop early_stop;
  // first step (0, 1, …) that trains the head alone; from total_steps() on: none
  int64_t first_head_step = std::numeric_limits<int64_t>::max();
};

/// Lists the data on rank 0, makes the shard plan and the store of this rank's groups and, on rank 0, opens the run
/// directory. All ranks call it. Throws data::DataError, configs::SettingsError, and as RunDirectory does.
void load_data(RunContext& run);
/// Makes the model, equal on all ranks, the forward pass, optimiser and average. Needs load_data. Throws as make_model.
void build_model(RunContext& run);
/// Fits the transforms of inputs and targets to the training groups of all ranks. All ranks call it, after build_model.
void fit_transforms(RunContext& run);

}  // namespace foretime::worker
