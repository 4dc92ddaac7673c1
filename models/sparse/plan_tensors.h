#pragma once

#include <memory>
#include <vector>

#include <torch/types.h>

#include "plans/message_plan.h"

namespace foretime::models {

/// A sparse matrix on the device of the model, and its transpose for the gradient of the product (undefined in plans
/// that are made without gradients).
struct CsrTensor {
  int64_t rows = 0, cols = 0;
  torch::Tensor row_ptr;  // [rows + 1] int64 (int32 on a GPU); undefined where every row has one entry (a gather)
  torch::Tensor columns;  // [entries] int32
  torch::Tensor values;   // [entries] float; undefined: all 1
  torch::Tensor transposed_row_ptr, transposed_columns, transposed_values;
  bool defined() const { return columns.defined(); }
};

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

/// A message plan as tensors. Layers and levels that the plan shares stay shared.
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
};

struct PlanTensorOptions {
  torch::Device device = torch::kCPU;
  torch::Dtype dtype = torch::kFloat;  // of floating-point members; float64 serves gradient checks
  bool gradients = true;
};

PlanTensors to_tensors(const plans::MessagePlan& plan, const PlanTensorOptions& options = {});

}  // namespace foretime::models
