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

/// TopK pooling of many small graphs at once: block-diagonal throughout, nothing is padded.
namespace foretime::models {

/// Graphs side by side, as far as pooling has left them.
struct GraphBatch {
  std::vector<int64_t> graph_ptr;  // [graphs + 1] nodes of graph g are graph_ptr[g] … graph_ptr[g + 1] - 1
  // [nodes, nodes] A + Aᵀ + I: symmetric, so it serves as its own transpose. Where models/device made it, its columns
  // and values have room for more entries than row_ptr tells.
  CsrTensor adjacency;
  torch::Tensor entry_rows;  // [entries] int32: the row of each entry of the adjacency; on the CPU
  // Where models/device runs; the host does not know which nodes stay.
  torch::Tensor device_ptr;  // [graphs + 1] int32: graph_ptr
  torch::Tensor graph_of;    // [nodes] int32
  torch::Tensor counts;      // [graphs] nodes of each graph; undefined before pooling

  int64_t graphs() const { return static_cast<int64_t>(graph_ptr.size()) - 1; }
  int64_t nodes() const { return graph_ptr.back(); }
};

/// The graphs of a plan of programs, whose only relation has both directions, summed, with a self loop. Throws
/// ModelError where a candidate's states are not its own and consecutive.
GraphBatch graphs_of(const PlanTensors& plan);

/// D^-½ (A + Aᵀ + I) D^-½, with the degrees of these graphs: what has been pooled away does not count.
CsrTensor symmetrically_normalized(const GraphBatch& graphs);

/// Sums, counts and maxima over the nodes of each graph, as a readout wants them.
PoolTensors pool_of(const GraphBatch& graphs, torch::ScalarType type);

/// The ceil(ratio * n) best-scored nodes of each graph, ascending. Scores nearer to each other than rounding can tell
/// (`tie` of the graph's largest) are ties, and of tied nodes the first ones stay: equal subtrees have equal scores,
/// and which of them stays must not hang on how a batch was put together. A chain of near scores is one tie. Where a
/// score is not finite, the graph's first nodes stay.
///   scores     [nodes] float or double, on any device
///   graph_ptr  as in GraphBatch; `kept_ptr` becomes that of the kept nodes
///   ratio      in (0, 1]; ratio * n is taken as whole where only rounding keeps it from being so
std::vector<int64_t> top_nodes(const torch::Tensor& scores, std::span<const int64_t> graph_ptr, double ratio,
                               double tie, std::vector<int64_t>& kept_ptr);

/// `kept_ptr` of top_nodes, which needs no scores.
std::vector<int64_t> kept_pointers(std::span<const int64_t> graph_ptr, double ratio);

/// The operation: x [nodes, width] → [kept nodes, width]; `graphs` becomes what is left. The choice carries no
/// gradient, tanh(s) does.
torch::Tensor keep_top_nodes(const inference::TopNodes& operation, const torch::Tensor& x, const torch::Tensor& weight,
                             GraphBatch& graphs);

/// The sparse matrices of a plan as an operation of the graph names them. Made when first asked for; matrices whose
/// messages are dropped are drawn from torch's generator then.
class AutogradMatrices {
 public:
  /// Both must outlive this. `training`: whether messages are dropped.
  AutogradMatrices(const PlanTensors& plan, const ModelGraph& model, bool training);

  /// Null: the identity. Throws ModelError for what the plan does not have.
  const CsrTensor* matrix(const MatrixRef& name);
  /// Whether the matrix has no entries at all: layouts of states none of which is configurable.
  bool is_zero(const MatrixRef& name) const;
  const PoolTensors& pool(const MatrixRef& name);
  /// [rows, 1]: how many states each row of the pool counts.
  torch::Tensor counts(const MatrixRef& name);
  /// Sets these in place of the plan's.
  void provide_counts(const MatrixRef& pool, torch::Tensor counts) { counts_[pool] = std::move(counts); }

  /// The graphs of a batch: those of the plan for -1, or what top_nodes with this result has left.
  GraphBatch& graphs(int32_t of);
  void provide_graphs(int32_t result, GraphBatch graphs) { graphs_[result] = std::move(graphs); }
  const PlanTensors& plan() const { return plan_; }

 private:
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

/// [states of the level, 1]: how many pairs of a node and a candidate of the batch have each state. Of a plan made with
/// gradients.
torch::Tensor state_counts(const PlanTensors& plan, size_t level);

class AutogradGraph;

/// One pass through a list of nodes: what operations see when LibTorch executes them. A value that is undefined stands
/// for zeros: what comes of layouts where no state is configurable.
class AutogradRun {
 public:
  AutogradRun(const AutogradGraph& graph, AutogradMatrices* matrices, const std::vector<int64_t>& group_ptr,
              size_t nodes)
      : graph_(graph), matrices_(matrices), group_ptr_(group_ptr), values_(nodes + inference::kInputs) {}

  torch::Tensor& at(Value value) { return values_[static_cast<size_t>(value.id)]; }
  const torch::Tensor& in(Value value) const { return values_[static_cast<size_t>(value.id)]; }
  /// Undefined where the operation goes without it.
  torch::Tensor weight(const WeightRef& weight) const;
  /// Columns start … start + count - 1 of a weight. Parts that make up all of it have one gradient together.
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
  mutable std::map<std::string, std::vector<torch::Tensor>> divided_;  // weights in parts, once asked for
  Value result_;
};

/// How LibTorch computes each operation, with gradients (operations.cpp).
torch::Tensor evaluate(const inference::Operation& operation, const AutogradRun& run);

/// A model's graph with its tensors, executed by LibTorch.
class AutogradGraph {
 public:
  using Provided = std::map<Value, torch::Tensor>;

  /// `graph` and `tensors` must outlive this.
  AutogradGraph(const ModelGraph& model, const std::map<std::string, torch::Tensor>& tensors, int64_t feature_count);

  /// The values of `embed` that are asked for. What is in `provided` is taken as it is.
  std::vector<torch::Tensor> embed(const PlanTensors* plan, AutogradMatrices* matrices,
                                   const std::vector<Value>& wanted, const Provided& provided = {}) const;
  std::vector<torch::Tensor> score(const torch::Tensor& embedded, const std::vector<int64_t>& group_ptr,
                                   const std::vector<Value>& wanted, const Provided& provided = {}) const;
  int64_t embed_columns(Value value) const;
  bool training = true, statistics_frozen = false;

 private:
  friend class AutogradRun;
  std::vector<torch::Tensor> run(const std::vector<inference::Node>& nodes, AutogradRun& run,
                                 const std::vector<Value>& wanted, const Provided& provided) const;

  void find_parts(const std::vector<inference::Node>& nodes, const std::vector<int64_t>& columns);

  const ModelGraph& model_;
  const std::map<std::string, torch::Tensor>& tensors_;
  std::vector<int64_t> embed_columns_, score_columns_;       // of all values
  std::map<std::string, std::map<int64_t, int64_t>> parts_;  // weights that operations take in parts: start → columns
};

}  // namespace foretime::models
