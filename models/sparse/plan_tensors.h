#pragma once

#include <memory>
#include <vector>

#include <torch/types.h>

#include "models/device/arena.h"
#include "plans/message_plan.h"

namespace foretime::models {

/// Rows that a device reduces in pieces (models/device/bodies.h). Undefined where no row is long, on the CPU, and for
/// matrices that are made on the way: there one thread takes a whole row, which is as right, but slower.
struct LongRows {
  torch::Tensor rows;        // [long rows] int32, ascending
  torch::Tensor piece_ptr;   // [long rows + 1] int32
  torch::Tensor piece_rows;  // [pieces] int32: which of `rows` a piece is of
};

/// A sparse matrix on the device of the model, and its transpose for the gradient of the product (undefined in plans
/// that are made without gradients).
struct CsrTensor {
  int64_t rows = 0, cols = 0;
  torch::Tensor row_ptr;  // [rows + 1] row_ptr_type_on(device); undefined where every row has one entry (a gather)
  torch::Tensor columns;  // [entries] int32
  torch::Tensor values;   // [entries] float; undefined: all 1
  torch::Tensor transposed_row_ptr, transposed_columns, transposed_values;
  LongRows long_rows = {}, transposed_long_rows = {};
  bool defined() const { return columns.defined(); }
};

/// kInt where models/device runs, kLong on the CPU.
torch::Dtype row_ptr_type_on(torch::Device device);

/// The same entries the other way round. Of a plan made with gradients.
CsrTensor transposed(const CsrTensor& matrix);

/// [entries] int64: the row of each entry.
torch::Tensor entry_rows(const CsrTensor& matrix);

/// Each matrix gathers the row of a state.
struct LevelTensors {
  CsrTensor node;        // [states, nodes]
  CsrTensor layout_row;  // [states, layout rows], undefined where the plan has no layouts
  CsrTensor candidate;   // [states, candidates], undefined unless tile features join early
  int64_t states = 0;
};

struct LayerTensors {
  std::vector<CsrTensor> relations;
  CsrTensor self;  // gathers a state's own one level down; undefined where it is the identity
};

/// data::PlanPool.
struct PoolTensors {
  std::vector<CsrTensor> stages;
  torch::Tensor counts;  // [rows, 1] float: nodes of each row of the last stage
};

/// A message plan as tensors, all of them views of one buffer (device::Arena). Layers and levels that the plan shares
/// stay shared.
struct PlanTensors {
  torch::Tensor node_features;       // [nodes, features] float
  CsrTensor node_types;              // [nodes, node types] a gather
  CsrTensor node_collections;        // [nodes, data::kCollections] a gather, undefined unless the request asks for it
  int64_t node_type_count = 0;       // columns of node_types: the largest type + 1
  torch::Tensor layout_rows;         // [rows, 18] float, undefined without layouts
  torch::Tensor candidate_features;  // [candidates, 24] float, undefined without tiles
  std::vector<std::shared_ptr<const LevelTensors>> levels;
  std::vector<std::shared_ptr<const LayerTensors>> layers;
  int64_t pools = 1;
  PoolTensors nodes, configurable;  // rows: candidates * pools
  PoolTensors tied;                 // likewise; no stages unless the request asks for it
  std::vector<int64_t> group_ptr;
  std::shared_ptr<device::Upload> upload;  // to a GPU, which may be under way; models wait for it. Null: all is there
};

struct PlanTensorOptions {
  torch::Device device = torch::kCPU;
  torch::Dtype dtype = torch::kFloat;  // of floating-point members; float64 serves gradient checks
  bool gradients = true;
};

PlanTensors to_tensors(const plans::MessagePlan& plan, const PlanTensorOptions& options = {});
/// The same into an arena of at least room_of() bytes, whose upload the caller starts.
PlanTensors to_tensors(const plans::MessagePlan& plan, const PlanTensorOptions& options, device::Arena& arena);
int64_t room_of(const plans::MessagePlan& plan, const PlanTensorOptions& options);

}  // namespace foretime::models
