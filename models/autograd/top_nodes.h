#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <torch/types.h>

#include "inference/ops/top_nodes.h"
#include "models/sparse/plan_tensors.h"

/// TopK pooling of many small graphs at once: block-diagonal throughout, nothing is padded.
namespace foretime::models {

/// Graphs side by side, as far as pooling has left them.
struct GraphBatch {
  std::vector<int64_t> graph_ptr;  // [graphs + 1] nodes of graph g are graph_ptr[g] … graph_ptr[g + 1] - 1
  CsrTensor adjacency;             // [nodes, nodes] A + Aᵀ + I: symmetric, so it serves as its own transpose
  torch::Tensor entry_rows;        // [entries] int32: the row of each entry of the adjacency

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

/// The operation: x [nodes, width] → [kept nodes, width]; `graphs` becomes what is left. The choice carries no
/// gradient, tanh(s) does.
torch::Tensor keep_top_nodes(const inference::TopNodes& operation, const torch::Tensor& x, const torch::Tensor& weight,
                             GraphBatch& graphs);

}  // namespace foretime::models
