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

/// TopK pooling of many small graphs at once. All matrices are block-diagonal, without padding.
namespace foretime::models {

/// Holds the graphs of a batch, concatenated, after some number of poolings.
struct GraphBatch {
  std::vector<int64_t> graph_ptr;  // [graphs + 1] nodes of graph g are graph_ptr[g] … graph_ptr[g + 1] - 1
  // [nodes, nodes] A + Aᵀ + I, which is symmetric and so its own transpose. If gpu::uses_gpu_kernels, `columns`
  // and `values` are longer than the number of entries in row_ptr.
  CsrTensor adjacency;
  torch::Tensor entry_rows;  // [entries] int32: row of each entry of the adjacency; set on the CPU only
  // The members below are set if gpu::uses_gpu_kernels; the host does not then know which nodes are kept.
  torch::Tensor device_ptr;  // [graphs + 1] int32, copy of graph_ptr
  torch::Tensor graph_of;    // [nodes] int32: number of the node's graph
  torch::Tensor counts;      // [graphs] nodes of each graph; undefined before pooling

  int64_t graphs() const { return std::ssize(graph_ptr) - 1; }
  int64_t nodes() const { return graph_ptr.back(); }
};

/// Returns the graphs of a batch of programs, one for each candidate, before any pooling. `plan` must have one
/// relation, with Direction::both and a self loop. Throws ModelError if candidates share states or a candidate's states
/// are not consecutive.
GraphBatch graphs_of(const PlanTensors& plan);

/// Returns D^-½ (A + Aᵀ + I) D^-½ with the degrees of these graphs, without nodes that were pooled away.
CsrTensor symmetrically_normalized(const GraphBatch& graphs);

/// Returns the matrices of sums, counts and maxima over the nodes of each graph for a readout.
PoolTensors pool_of(const GraphBatch& graphs, torch::ScalarType type);

/// Returns the ceil(ratio * n) best-scored nodes of each graph, ascending. Scores that differ by less than rounding
/// errors (`tie` times the graph's largest score) are ties, and of tied nodes the first are kept: equal subtrees have
/// equal scores, and the choice must not depend on the composition of the batch. Scores that form a chain of ties are
/// all tied. If a score is not finite, the graph's first nodes are kept.
///   scores     [nodes] float or double, on any device
///   graph_ptr  see GraphBatch; `kept_ptr` is set to that of the kept nodes
///   ratio      in (0, 1]; ratio * n is rounded to a whole number that it misses by a rounding error only
std::vector<int64_t> top_nodes(const torch::Tensor& scores, std::span<const int64_t> graph_ptr, double ratio,
                               double tie, std::vector<int64_t>& kept_ptr);

/// Returns `kept_ptr` of top_nodes, which does not depend on scores.
std::vector<int64_t> kept_pointers(std::span<const int64_t> graph_ptr, double ratio);

/// Evaluates the operation TopNodes: x [nodes, width] → [kept nodes, width]. Replaces `graphs` by its kept nodes. The
/// choice has no gradient; the factor tanh(s) has.
torch::Tensor keep_top_nodes(const inference::TopNodes& operation, const torch::Tensor& x, const torch::Tensor& weight,
                             GraphBatch& graphs);

/// Makes the sparse matrices of a plan by the names that operations use, at the first request. Matrices with dropped
/// messages are drawn from torch's generator at that time.
class AutogradMatrices {
 public:
  /// Keeps references to `plan` and `model`. `training` enables the dropping of messages.
  AutogradMatrices(const PlanTensors& plan, const ModelGraph& model, bool training);

  /// Returns a matrix; null for the identity. Throws ModelError if the plan does not have it.
  const CsrTensor* matrix(const MatrixRef& name);
  /// Returns whether `name` is the layout rows of a level and the plan has none, since no state is configurable: their
  /// product is 0. False for every other matrix, even one without entries.
  bool is_zero(const MatrixRef& name) const;
  /// Returns a pool. Throws ModelError if the plan does not have it.
  const PoolTensors& pool(const MatrixRef& name);
  /// Returns the number of states that each row of the pool counts, [rows, 1].
  torch::Tensor counts(const MatrixRef& name);
  /// Replaces the plan's counts of `pool`.
  void provide_counts(const MatrixRef& pool, torch::Tensor counts) { counts_[pool] = std::move(counts); }

  /// Returns the graphs of a batch: of the plan for -1, else after the top_nodes operation with this result.
  GraphBatch& graphs(int32_t of);
  void provide_graphs(int32_t result, GraphBatch graphs) { graphs_[result] = std::move(graphs); }
  const PlanTensors& plan() const { return plan_; }

 private:
  /// Draws the dropped messages of all matrices of a drop set.
  void drop(int32_t set);
  CsrTensor make(const MatrixRef& name);
  void make_statements();

  const PlanTensors& plan_;
  const ModelGraph& model_;
  bool training_;
  std::map<MatrixRef, CsrTensor> made_;
  std::map<MatrixRef, PoolTensors> pools_;
  std::map<MatrixRef, torch::Tensor> counts_;
  std::map<int32_t, GraphBatch> graphs_;
};

/// Returns the number of pairs of a node and a candidate that have each state, [states of the level, 1]. The plan must
/// be made with gradients.
torch::Tensor state_counts(const PlanTensors& plan, size_t level);

class AutogradGraph;

/// Holds the values of one pass through a list of nodes, executed by LibTorch. An undefined value means zeros: the
/// layouts of a plan without configurable states.
class AutogradRun {
 public:
  AutogradRun(const AutogradGraph& graph, AutogradMatrices* matrices, const std::vector<int64_t>& group_ptr,
              size_t nodes)
      : graph_(graph), matrices_(matrices), group_ptr_(group_ptr), values_(nodes + inference::kInputs) {}

  torch::Tensor& at(Value value) { return values_[value.id]; }
  const torch::Tensor& in(Value value) const { return values_[value.id]; }
  /// Returns a weight; undefined if the operation has none.
  torch::Tensor weight(const WeightRef& weight) const;
  /// Returns columns start … start + count - 1 of a weight. Parts that cover the weight share one gradient.
  torch::Tensor weight_columns(const WeightRef& weight, int64_t start, int64_t count) const;
  AutogradMatrices& matrices() const { return *matrices_; }
  const std::vector<int64_t>& group_ptr() const { return group_ptr_; }
  bool training() const;
  bool statistics_frozen() const;
  Value result() const { return result_; }
  int64_t columns(Value value) const;

 private:
  friend class AutogradGraph;
  const AutogradGraph& graph_;
  AutogradMatrices* matrices_;
  const std::vector<int64_t>& group_ptr_;
  std::vector<torch::Tensor> values_;
  const std::vector<int64_t>* columns_ = nullptr;
  mutable std::map<std::string, std::vector<torch::Tensor>> divided_;  // parts of weights that were requested
  Value result_;
};

/// Computes an operation with LibTorch, with gradients (operations.cpp).
torch::Tensor evaluate(const inference::Operation& operation, const AutogradRun& run);

/// Executes a model's graph with its tensors by LibTorch.
class AutogradGraph {
 public:
  using Provided = std::map<Value, torch::Tensor>;

  /// Keeps references to `model` and `tensors`.
  AutogradGraph(const ModelGraph& model, const std::map<std::string, torch::Tensor>& tensors, int64_t feature_count);

  /// Returns the `wanted` values of the list `embed`. Values in `provided` are used instead of being computed.
  std::vector<torch::Tensor> embed(const PlanTensors* plan, AutogradMatrices* matrices,
                                   const std::vector<Value>& wanted, const Provided& provided = {}) const;
  /// Returns the `wanted` values of the list `score`.
  std::vector<torch::Tensor> score(const torch::Tensor& embedded, const std::vector<int64_t>& group_ptr,
                                   const std::vector<Value>& wanted, const Provided& provided = {}) const;
  /// Returns the columns of a value of the list `embed`.
  int64_t embed_columns(Value value) const;
  bool training = true, statistics_frozen = false;

 private:
  friend class AutogradRun;
  std::vector<torch::Tensor> run(const std::vector<inference::Node>& nodes, AutogradRun& run,
                                 const std::vector<Value>& wanted, const Provided& provided) const;

  /// Finds the weights that the operations of a list use in parts.
  void find_parts(const std::vector<inference::Node>& nodes, const std::vector<int64_t>& columns);

  const ModelGraph& model_;
  const std::map<std::string, torch::Tensor>& tensors_;
  std::vector<int64_t> embed_columns_, score_columns_;       // columns of each value
  std::map<std::string, std::map<int64_t, int64_t>> parts_;  // weights that operations use in parts: start → columns
};

}  // namespace foretime::models
