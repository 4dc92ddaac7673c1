#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include <torch/types.h>

#include "inference/graph/graph.h"
#include "inference/ops/operation.h"
#include "inference/runtime/references.h"
#include "models/graph/graph_builder.h"
#include "models/sparse/plan_tensors.h"

/// Execution of a model's graph by LibTorch with gradients. TopK pooling uses block-diagonal matrices of all graphs.
namespace foretime::models {

/// Holds the graphs of a batch (one for each candidate), concatenated, after zero or more poolings.
struct GraphBatch {
  std::vector<int64_t> graph_ptr;  // [graphs + 1] nodes of graph g are graph_ptr[g] … graph_ptr[g + 1] - 1
  // [nodes, nodes] A + Aᵀ + I, its own transpose; for GPU kernels, undefined elements may follow the entries.
  CsrTensor adjacency;
  torch::Tensor entry_rows;  // [entries] int32: row of each entry of the adjacency; set on the CPU only
  // The members below are set only if gpu::uses_gpu_kernels. Only the device then knows which nodes are kept.
  torch::Tensor device_ptr;  // [graphs + 1] int32, copy of graph_ptr
  torch::Tensor graph_of;    // [nodes] int32: number of the node's graph
  torch::Tensor counts;      // [graphs] float: number of nodes of each graph; undefined before the first pooling

  int64_t graphs() const { return std::ssize(graph_ptr) - 1; }
  int64_t nodes() const { return graph_ptr.back(); }
};

/// Returns the graphs of a plan of programs, one for each candidate. The plan must have one relation, with
/// Direction::both and a self loop. Throws ModelError if candidates share states or have states that are not
/// consecutive.
GraphBatch graphs_of(const PlanTensors& plan);

/// Returns D^-½ A D^-½, [nodes, nodes], where A is graphs.adjacency and D the diagonal matrix of its row sums.
CsrTensor symmetrically_normalized(const GraphBatch& graphs);

/// Returns a pool of one stage, [graphs, nodes]: row g has the nodes of graph g. `type` is the type of the counts.
PoolTensors pool_of(const GraphBatch& graphs, torch::ScalarType type);

/// Returns the ceil(ratio * n) nodes with the highest scores of each graph of n nodes, ascending. Neighbours in the
/// order of scores are tied if they differ by at most `tie` times the graph's largest absolute score; a chain of ties
/// is tied as a whole. Of tied nodes the first are kept: equal subtrees have equal scores, and the choice must not
/// depend on the composition of the batch. If a score of a graph is not finite, the graph's first nodes are kept.
///   scores     [nodes] float or double, on any device
///   graph_ptr  as GraphBatch::graph_ptr; `kept_ptr` is set to the graph_ptr of the kept nodes
///   ratio      in (0, 1]; ratio * n that exceeds a whole number by a rounding error only counts as that number
std::vector<int64_t> top_nodes(const torch::Tensor& scores, std::span<const int64_t> graph_ptr, double ratio,
                               double tie, std::vector<int64_t>& kept_ptr);

/// Evaluates the operation TopNodes: x [nodes, width], weight [width] → [kept nodes, width]. A node's score is s = x ·
/// weight / |weight|; rows are multiplied by tanh(s). Replaces `graphs` by its kept nodes. The choice has no gradient.
torch::Tensor keep_top_nodes(const inference::TopNodes& operation, const torch::Tensor& x, const torch::Tensor& weight,
                             GraphBatch& graphs);

/// Holds the sparse matrices of a plan by the names that operations use (MatrixRef). The first request makes a matrix,
/// and draws the messages that training drops from torch's generator.
class AutogradMatrices {
 public:
  /// Keeps references to `plan` and `model`. `training` enables the dropping of messages (model.edge_dropout).
  AutogradMatrices(const PlanTensors& plan, const ModelGraph& model, bool training);

  /// Returns the matrix of this name; null for the identity. Throws BrokenInvariant if the plan lacks it, ModelError if
  /// it needs separate states for each candidate, and an error of inference::statement_parts if it needs loop graphs.
  const CsrTensor* matrix(const MatrixRef& name);
  /// Returns whether `name` is level_layout_row and no state of the plan has a layout: products with that matrix are 0.
  bool is_zero(const MatrixRef& name) const;
  /// Returns the pool of this name (no stages for a `tied` that the plan lacks), or a pool whose one stage is the
  /// matrix of this name. Throws as matrix() does.
  const PoolTensors& pool(const MatrixRef& name);
  /// Returns the number of nodes that each row of the pool sums, [rows, 1] float. Throws as matrix() does.
  torch::Tensor counts(const MatrixRef& name);
  /// Makes counts() return `counts`, [rows, 1], for `pool`, instead of the plan's.
  void provide_counts(const MatrixRef& pool, torch::Tensor counts) { counts_[pool] = std::move(counts); }

  /// Returns the graphs after the TopNodes operation with this result, which must have run; for -1 those of the plan.
  GraphBatch& graphs(int32_t result);
  /// Sets the graphs after the TopNodes operation with this result.
  void provide_graphs(int32_t result, GraphBatch graphs) { graphs_[result] = std::move(graphs); }
  const PlanTensors& plan() const { return plan_; }

 private:
  /// Draws the dropped messages of all matrices of a drop set.
  void drop(int32_t set);
  /// Makes normalized_adjacency or candidate_of.
  CsrTensor make(const MatrixRef& name);
  void make_statements();

  const PlanTensors& plan_;
  const ModelGraph& model_;
  bool training_;  // messages are dropped
  std::map<MatrixRef, CsrTensor> made_;
  std::map<MatrixRef, PoolTensors> pools_;
  std::map<MatrixRef, torch::Tensor> counts_;  // set by provide_counts
  std::map<int32_t, GraphBatch> graphs_;       // indexed by the result of a TopNodes operation; -1: before any
};

/// Returns for each state of a level its number of (node, candidate) pairs, [states, 1]. Needs a plan with gradients.
torch::Tensor state_counts(const PlanTensors& plan, size_t level);

class AutogradGraph;

/// Holds the values of one pass through a list of operations (embed or score). Undefined values are zeros: layouts of a
/// plan without configurable states, and what is computed from them alone.
class AutogradRun {
 public:
  /// `matrices` is null for the list score; `group_ptr` is empty for the list embed; `nodes` is the length of the list.
  AutogradRun(const AutogradGraph& graph, AutogradMatrices* matrices, const std::vector<int64_t>& group_ptr,
              size_t nodes)
      : graph_(graph), matrices_(matrices), group_ptr_(group_ptr), values_(nodes + inference::kInputs) {}

  torch::Tensor& at(Value value) { return values_[value.id]; }
  const torch::Tensor& in(Value value) const { return values_[value.id]; }
  /// Returns the tensor of a weight; undefined for an undefined reference.
  torch::Tensor weight(const WeightRef& weight) const;
  /// Returns columns start … start + count - 1 of a weight. Parts that cover a weight have one joint gradient.
  torch::Tensor weight_columns(const WeightRef& weight, int64_t start, int64_t count) const;
  AutogradMatrices& matrices() const { return *matrices_; }
  const std::vector<int64_t>& group_ptr() const { return group_ptr_; }
  bool training() const;
  bool statistics_frozen() const;
  /// Returns the value that the current operation computes.
  Value result() const { return result_; }
  int64_t columns(Value value) const;

 private:
  friend class AutogradGraph;
  const AutogradGraph& graph_;
  AutogradMatrices* matrices_;
  const std::vector<int64_t>& group_ptr_;
  std::vector<torch::Tensor> values_;                                  // indexed by Value::id
  const std::vector<int64_t>* columns_ = nullptr;                      // number of columns by Value::id
  mutable std::map<std::string, std::vector<torch::Tensor>> divided_;  // parts of weights that were requested
  Value result_;
};

/// Returns the result of an operation on the values of `run`, with gradients; undefined for zeros.
torch::Tensor evaluate(const inference::Operation& operation, const AutogradRun& run);

/// Executes a model's graph with its tensors by LibTorch.
class AutogradGraph {
 public:
  using Provided = std::map<Value, torch::Tensor>;

  /// Keeps references to `model` and `tensors`.
  AutogradGraph(const ModelGraph& model, const std::map<std::string, torch::Tensor>& tensors, int64_t feature_count);

  /// Returns the `wanted` values of the list `embed`, in order, and computes only what they need, from `provided`
  /// values where given. `plan` may be null if no wanted value needs its arrays.
  std::vector<torch::Tensor> embed(const PlanTensors* plan, AutogradMatrices* matrices,
                                   const std::vector<Value>& wanted, const Provided& provided = {}) const;
  /// Returns the `wanted` values of the list `score`, likewise. For `group_ptr` see PlanTensors::group_ptr.
  std::vector<torch::Tensor> score(const torch::Tensor& embedded, const std::vector<int64_t>& group_ptr,
                                   const std::vector<Value>& wanted, const Provided& provided = {}) const;
  /// Returns the number of columns of a value of the list `embed`.
  int64_t embed_columns(Value value) const;
  bool training = true;            // dropout is applied, and batch normalisation uses the batch
  bool statistics_frozen = false;  // training: batch normalisation uses the running statistics instead

 private:
  friend class AutogradRun;
  std::vector<torch::Tensor> run(const std::vector<inference::Node>& nodes, AutogradRun& run,
                                 const std::vector<Value>& wanted, const Provided& provided) const;

  /// Adds to parts_ the weights that the Dense operations of a list use in parts that cover the whole weight.
  void find_parts(const std::vector<inference::Node>& nodes, const std::vector<int64_t>& columns);

  const ModelGraph& model_;
  const std::map<std::string, torch::Tensor>& tensors_;
  std::vector<int64_t> embed_columns_;                       // [values of embed] number of columns of each
  std::vector<int64_t> score_columns_;                       // [values of score] number of columns of each
  std::map<std::string, std::map<int64_t, int64_t>> parts_;  // weight → first column of a part → number of its columns
};

}  // namespace foretime::models
