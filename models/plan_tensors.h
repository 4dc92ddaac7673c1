#pragma once

#include <memory>
#include <vector>

#include <torch/torch.h>

#include "data/message_plan.h"

namespace foretime::models {

/// A sparse matrix and its transpose on the device of the model, for the product and for its gradient.
struct CsrTensor {
  int64_t rows = 0, cols = 0;
  torch::Tensor row_ptr, columns, values;  // [rows + 1] int64, [entries] int32, [entries] float
  torch::Tensor transposed_row_ptr, transposed_columns, transposed_values;
};

struct LevelTensors {
  torch::Tensor node;        // [states] int64
  torch::Tensor layout_row;  // [states] int64, undefined where the plan has no layouts
  torch::Tensor candidate;   // [states] int64, undefined unless tile features join early
  int64_t states = 0;
};

struct LayerTensors {
  std::vector<CsrTensor> relations;
  torch::Tensor self;  // [states above] int64; undefined where it is the identity
};

/// A message plan as tensors. Layers and levels that the plan shares stay shared.
struct PlanTensors {
  torch::Tensor node_features;       // [nodes, features] float
  torch::Tensor node_types;          // [nodes] int64
  torch::Tensor layout_rows;         // [rows, 18] float, undefined without layouts
  torch::Tensor candidate_features;  // [candidates, 24] float, undefined without tiles
  std::vector<std::shared_ptr<const LevelTensors>> levels;
  std::vector<std::shared_ptr<const LayerTensors>> layers;
  CsrTensor readout_nodes, readout_configurable;
  std::vector<int64_t> group_ptr;
};

/// Copies a plan to a device, with floating-point members of type `dtype` (float64 serves gradient checks).
PlanTensors to_tensors(const data::MessagePlan& plan, torch::Device device = torch::kCPU,
                       torch::Dtype dtype = torch::kFloat);

}  // namespace foretime::models
