#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <torch/types.h>

#include "inference/runtime/plan_matrices.h"
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
  torch::Tensor transposed_positions = {};  // [entries] int32: which entry an entry of the transpose is; undefined:
                                            // transposed_entries (sparse_ops.h) finds it
  bool zeros_are_none = false;              // entries of value 0 are no entries: maxima and softmax leave them out
  bool defined() const { return columns.defined(); }
};

/// kInt where models/device runs, kLong on the CPU.
torch::Dtype row_ptr_type_on(torch::Device device);

/// The same entries the other way round. Of a plan made with gradients.
CsrTensor transposed(const CsrTensor& matrix);

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

/// inference::StatementParts. `statements` and `loops` gather nodes; all values are 1.
struct StatementTensors {
  CsrTensor statements, loops;
  CsrTensor loops_of, innermost, second;
  std::vector<CsrTensor> accesses;
  CsrTensor statements_of;
};

/// A message plan as tensors, all of them views of one buffer (device::Arena). Layers and levels that the plan shares
/// stay shared.
struct PlanTensors {
  torch::Tensor node_features;       // [nodes, features] float
  CsrTensor node_types;              // [nodes, node types] a gather
  CsrTensor node_collections;        // [nodes, data::kCollections] a gather, undefined unless the request asks for it
  int64_t node_type_count = 0;       // columns of node_types: the largest type + 1
  torch::Tensor layout_rows;         // [rows, 18] float, undefined without layouts
  torch::Tensor is_layout;           // [rows, 1] float: 0 for rows that stand for no layout; undefined: row 0 does
  torch::Tensor candidate_features;  // [candidates, 24] float, undefined without tiles
  std::vector<std::shared_ptr<const LevelTensors>> levels;
  std::vector<std::shared_ptr<const LayerTensors>> layers;
  int64_t pools = 1;
  PoolTensors nodes, configurable;                     // rows: candidates * pools
  PoolTensors tied;                                    // likewise; no stages unless the request asks for it
  std::shared_ptr<const StatementTensors> statements;  // null unless asked for
  std::vector<int64_t> group_ptr;
  // Where each row of `nodes` has consecutive states of its own: graph_ptr[r] … graph_ptr[r + 1] - 1. Else empty.
  std::vector<int64_t> graph_ptr;
  std::shared_ptr<device::Upload> upload;  // to a GPU, which may be under way; models wait for it. Null: all is there
};

struct PlanTensorOptions {
  torch::Device device = torch::kCPU;
  torch::Dtype dtype = torch::kFloat;  // of floating-point members; float64 serves gradient checks
  bool gradients = true;
  // What only some models ask for (CostModel::plan_tensor_options). Without it they work it out at each step.
  bool entry_positions = false;  // CsrTensor::transposed_positions of relations
  bool statements = false;       // PlanTensors::statements
  bool candidate_rows = true;    // false: pools end before the stage whose rows are candidates (ResidentPlan)
};

PlanTensors to_tensors(const plans::MessagePlan& plan, const PlanTensorOptions& options = {});
/// What PlanTensors::statements would be.
std::shared_ptr<const StatementTensors> to_tensors(const inference::StatementParts& parts,
                                                   const PlanTensorOptions& options);

/// A plan on its way to a device: how much room it takes is known before any of it is copied.
class PlanConversion {
 public:
  /// Keeps the reference. Throws ModelError where the plan does not have what the options ask for.
  PlanConversion(const plans::MessagePlan& plan, const PlanTensorOptions& options);
  /// Bytes, at most.
  int64_t room() const;
  /// Into an arena with so much room, whose upload the caller starts. Throws ModelError for a plan that does not fit
  /// together.
  PlanTensors into(device::Arena& arena) const;

 private:
  const plans::MessagePlan& plan_;
  PlanTensorOptions options_;
  std::optional<inference::StatementParts> statements_;
};

}  // namespace foretime::models
