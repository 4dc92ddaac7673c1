#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <torch/types.h>

#include "inference/runtime/plan_matrices.h"
#include "models/gpu/arena.h"
#include "plans/message_plan.h"

namespace foretime::models {

/// Lists the rows of a matrix with more than gpu::kLongRow entries, which a GPU reduces in pieces. Undefined on the
/// CPU, if no row is long, and for matrices that a GPU makes during a step.
struct LongRows {
  torch::Tensor rows;        // [long rows] int32, ascending
  torch::Tensor piece_ptr;   // [long rows + 1] int32
  torch::Tensor piece_rows;  // [pieces] int32: index in `rows` of each piece's row
};

/// Holds a sparse matrix on the model's device, and its transpose for gradients, undefined in plans without gradients.
struct CsrTensor {
  int64_t rows = 0, cols = 0;
  torch::Tensor row_ptr;  // [rows + 1] row_ptr_type_on(device); undefined for a gather, with one entry a row
  torch::Tensor columns;  // [entries] int32
  torch::Tensor values;   // [entries] float; undefined: all 1
  torch::Tensor transposed_row_ptr, transposed_columns, transposed_values;
  LongRows long_rows = {}, transposed_long_rows = {};
  // [entries] int32: index in the matrix of each entry of the transpose; undefined: see transposed_entries.
  torch::Tensor transposed_positions = {};
  bool zeros_are_none = false;  // entries of value 0 are ignored by maxima and softmax
  bool defined() const { return columns.defined(); }
};

/// Returns the type of row pointers: kInt if gpu::uses_gpu_kernels(device), else kLong.
torch::Dtype row_ptr_type_on(torch::Device device);

/// Returns the transpose, without transposed_positions. The plan must be made with gradients.
CsrTensor transposed(const CsrTensor& matrix);

/// Holds the inputs of a level's states as matrices with a single 1 in each row.
struct LevelTensors {
  CsrTensor node;        // [states, nodes]: the 1 is at the state's node
  CsrTensor layout_row;  // [states, rows of layout_rows]: at the state's layout; undefined if no state has a layout
  CsrTensor candidate;   // [states, candidates]: at the state's candidate; undefined unless tile features join early
  int64_t states = 0;    // number of states of the level
};

/// Holds a plans::PlanLayer as tensors.
struct LayerTensors {
  std::vector<CsrTensor> relations;  // [states above, states below] each, in the order of PlanRequest::relations
  CsrTensor self;  // [states above, states below]: a single 1 in each row, at the same state below; undefined: identity
};

/// Holds a plans::PlanPool as tensors.
struct PoolTensors {
  std::vector<CsrTensor> stages;  // the first multiplies states, each later one the result of the stage before
  torch::Tensor counts;           // [rows of the last stage, 1] float: number of nodes that each row sums
};

/// Holds inference::StatementParts as tensors of the same names; all values are 1.
struct StatementTensors {
  CsrTensor statements, loops;  // [statements, nodes], [loops, nodes]: the node of each; without transposes
  CsrTensor loops_of, innermost, second;
  std::vector<CsrTensor> accesses;
  CsrTensor statements_of;
};

/// Holds a message plan as tensors, all of them views of one buffer (gpu::Arena), with the plan's sharing of levels.
struct PlanTensors {
  torch::Tensor node_features;  // [nodes, features] float
  CsrTensor node_types;         // [nodes, node types] a single 1 in each row, at the node's type
  // [nodes, data::kCollections] a single 1 in each row, at the collection of the node's graph; undefined: not requested
  CsrTensor node_collections;
  int64_t node_type_count = 0;  // number of columns of node_types: the largest type + 1
  torch::Tensor layout_rows;    // [rows, 18] float, undefined without layouts
  torch::Tensor is_layout;      // [rows, 1] float: 0 for rows without layout, else 1; undefined: only row 0 has none
  torch::Tensor candidate_features;  // [candidates, 24] float, undefined without tiles
  std::vector<std::shared_ptr<const LevelTensors>> levels;
  std::vector<std::shared_ptr<const LayerTensors>> layers;
  int64_t pools = 1;                // number of pools of each candidate (plans::PlanReadout)
  PoolTensors nodes, configurable;  // rows: candidates * pools; row c * pools + p is pool p of candidate c
  PoolTensors tied;                 // rows: candidates * pools; no stages unless the request asks for them
  std::shared_ptr<const StatementTensors> statements;  // null unless the options ask for them
  std::vector<int64_t> group_ptr;  // [groups + 1] candidates of group g are group_ptr[g] … group_ptr[g + 1] - 1
  // [rows of `nodes` + 1] row r has states graph_ptr[r] … graph_ptr[r + 1] - 1; empty if that does not hold for all
  std::vector<int64_t> graph_ptr;
  std::shared_ptr<gpu::Upload> upload;  // copy to a GPU in progress, which models wait for; null: complete
};

struct PlanTensorOptions {
  torch::Device device = torch::kCPU;
  torch::Dtype dtype = torch::kFloat;  // type of floating-point members; float64 serves gradient checks
  bool gradients = true;               // matrices have transposes
  // Members that only some models request (CostModel::plan_tensor_options). If absent, each step computes them.
  bool entry_positions = false;  // CsrTensor::transposed_positions of relations
  bool statements = false;       // PlanTensors::statements
  bool candidate_rows = true;    // false: pools lack their last stage, whose rows are candidates (ResidentPlan)
};

/// Converts a plan to tensors on options.device; PlanTensors::upload may be in progress. Throws as PlanConversion does.
PlanTensors to_tensors(const plans::MessagePlan& plan, const PlanTensorOptions& options = {});
/// Converts statements to the tensors of PlanTensors::statements, which are complete for the current stream.
std::shared_ptr<const StatementTensors> to_tensors(const inference::StatementParts& parts,
                                                   const PlanTensorOptions& options);

/// Converts a plan to tensors in an arena of the caller, whose necessary size max_bytes() gives before the copy.
class PlanConversion {
 public:
  /// Keeps the reference to `plan`. With options.statements, throws ModelError or inference::BundleError if the plan's
  /// graphs are not loop graphs (data.representation loops).
  PlanConversion(const plans::MessagePlan& plan, const PlanTensorOptions& options);
  /// Returns an upper bound of the bytes that the tensors take in an arena.
  int64_t max_bytes() const;
  /// Copies the plan into an arena of at least max_bytes(), whose upload the caller starts. Throws ModelError for an
  /// index out of range, and as PlanConverter does.
  PlanTensors copy_into(gpu::Arena& arena) const;

 private:
  const plans::MessagePlan& plan_;
  PlanTensorOptions options_;
  std::optional<inference::StatementParts> statements_;
};

}  // namespace foretime::models
