#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <torch/types.h>

#include "inference/runtime/plan_matrices.h"
#include "models/gpu/arena.h"
#include "plans/message_plan.h"

namespace foretime::models {

/// Lists rows that a device reduces in pieces (models/gpu/sparse_kernels.h). Undefined if no row is long, on the CPU,
/// and for matrices that are made during a step: there one thread reduces a whole row, which is slower.
struct LongRows {
  torch::Tensor rows;        // [long rows] int32, ascending
  torch::Tensor piece_ptr;   // [long rows + 1] int32
  torch::Tensor piece_rows;  // [pieces] int32: index in `rows` of each piece's row
};

/// Holds a sparse matrix on the model's device, and its transpose for the gradient of products (undefined in plans that
/// are made without gradients).
struct CsrTensor {
  int64_t rows = 0, cols = 0;
  torch::Tensor row_ptr;  // [rows + 1] row_ptr_type_on(device); undefined for a gather, with one entry a row
  torch::Tensor columns;  // [entries] int32
  torch::Tensor values;   // [entries] float; undefined: all 1
  torch::Tensor transposed_row_ptr, transposed_columns, transposed_values;
  LongRows long_rows = {}, transposed_long_rows = {};
  // [entries] int32: index in the matrix of each entry of the transpose; undefined: transposed_entries (sparse_ops.h)
  // computes it
  torch::Tensor transposed_positions = {};
  bool zeros_are_none = false;  // entries of value 0 are ignored by maxima and softmax
  bool defined() const { return columns.defined(); }
};

/// Returns kInt if gpu::uses_gpu_kernels(device), else kLong.
torch::Dtype row_ptr_type_on(torch::Device device);

/// Returns the transpose. The plan must be made with gradients.
CsrTensor transposed(const CsrTensor& matrix);

/// Holds the inputs of a level's states; each matrix gathers one row for each state.
struct LevelTensors {
  CsrTensor node;        // [states, nodes]
  CsrTensor layout_row;  // [states, layout rows], undefined where the plan has no layouts
  CsrTensor candidate;   // [states, candidates], undefined unless tile features join early
  int64_t states = 0;
};

struct LayerTensors {
  std::vector<CsrTensor> relations;
  CsrTensor self;  // gathers the state of the level below; undefined: the identity
};

/// Holds a plans::PlanPool as tensors.
struct PoolTensors {
  std::vector<CsrTensor> stages;
  torch::Tensor counts;  // [rows, 1] float: nodes of each row of the last stage
};

/// Holds inference::StatementParts as tensors. `statements` and `loops` gather nodes; all values are 1.
struct StatementTensors {
  CsrTensor statements, loops;
  CsrTensor loops_of, innermost, second;
  std::vector<CsrTensor> accesses;
  CsrTensor statements_of;
};

/// Holds a message plan as tensors, all of them views of one buffer (gpu::Arena). Layers and levels that the plan
/// shares are shared here too.
struct PlanTensors {
  torch::Tensor node_features;  // [nodes, features] float
  CsrTensor node_types;         // [nodes, node types] a single 1 in each row, at the node's type
  // [nodes, data::kCollections] a single 1 in each row, at the collection of the node's graph; undefined unless
  // requested
  CsrTensor node_collections;
  int64_t node_type_count = 0;       // columns of node_types: the largest type + 1
  torch::Tensor layout_rows;         // [rows, 18] float, undefined without layouts
  torch::Tensor is_layout;           // [rows, 1] float: 0 for rows without a layout; undefined: row 0 alone has none
  torch::Tensor candidate_features;  // [candidates, 24] float, undefined without tiles
  std::vector<std::shared_ptr<const LevelTensors>> levels;
  std::vector<std::shared_ptr<const LayerTensors>> layers;
  int64_t pools = 1;
  PoolTensors nodes, configurable;  // rows: candidates * pools
  PoolTensors tied;                 // rows: candidates * pools; no stages unless the request asks for them
  std::shared_ptr<const StatementTensors> statements;  // null unless the options ask for them
  std::vector<int64_t> group_ptr;
  // Bounds of the states of each row of `nodes`, if they are consecutive and not shared: graph_ptr[r] … graph_ptr[r +
  // 1] - 1. Else empty.
  std::vector<int64_t> graph_ptr;
  std::shared_ptr<gpu::Upload> upload;  // copy to a GPU in progress, which models wait for; null: complete
};

struct PlanTensorOptions {
  torch::Device device = torch::kCPU;
  torch::Dtype dtype = torch::kFloat;  // type of floating-point members; float64 serves gradient checks
  bool gradients = true;
  // Members that only some models request (CostModel::plan_tensor_options); otherwise they are computed at each step.
  bool entry_positions = false;  // CsrTensor::transposed_positions of relations
  bool statements = false;       // PlanTensors::statements
  bool candidate_rows = true;    // false: pools end before the stage whose rows are candidates (ResidentPlan)
};

/// Converts a plan to tensors.
PlanTensors to_tensors(const plans::MessagePlan& plan, const PlanTensorOptions& options = {});
/// Converts statements to the tensors of PlanTensors::statements.
std::shared_ptr<const StatementTensors> to_tensors(const inference::StatementParts& parts,
                                                   const PlanTensorOptions& options);

/// Converts a plan for a device. Its size is known before anything is copied.
class PlanConversion {
 public:
  /// Keeps the reference to `plan`. Throws ModelError if the plan lacks a member that the options ask for.
  PlanConversion(const plans::MessagePlan& plan, const PlanTensorOptions& options);
  /// Returns an upper bound of the tensors' bytes.
  int64_t max_bytes() const;
  /// Copies the plan into an arena of at least this size, whose upload the caller starts. Throws ModelError for an
  /// inconsistent plan.
  PlanTensors copy_into(gpu::Arena& arena) const;

 private:
  const plans::MessagePlan& plan_;
  PlanTensorOptions options_;
  std::optional<inference::StatementParts> statements_;
};

}  // namespace foretime::models
