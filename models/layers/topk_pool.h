#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <torch/torch.h>

#include "models/form_writer.h"
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

/// The relation whose matrix `graphs_of` takes: both directions, summed, with a self loop.
plans::RelationSpec pooled_relation();

/// The graphs of a plan of programs, made with `pooled_relation` as its only one. Throws ModelError where a candidate's
/// states are not its own and consecutive.
GraphBatch graphs_of(const PlanTensors& plan);

/// D^-½ (A + Aᵀ + I) D^-½, with the degrees of these graphs: what has been pooled away does not count.
CsrTensor symmetrically_normalized(const GraphBatch& graphs);

/// Sums, counts and maxima over the nodes of each graph, as a readout wants them.
PoolTensors pool_of(const GraphBatch& graphs, torch::ScalarType type);

/// The ceil(ratio * n) best-scored nodes of each graph, ascending. Scores nearer to each other than rounding can tell
/// (kTieUlps of the graph's largest) are ties, and of tied nodes the first ones stay: equal subtrees have equal scores,
/// and which of them stays must not hang on how a batch was put together. A chain of near scores is one tie. Where a
/// score is not finite, the graph's first nodes stay.
///   scores     [nodes] float or double, on any device
///   graph_ptr  as in GraphBatch; `kept_ptr` becomes the same of the kept nodes
///   ratio      in (0, 1]; ratio * n is taken as whole where only rounding keeps it from being so
std::vector<int64_t> top_nodes(const torch::Tensor& scores, std::span<const int64_t> graph_ptr, double ratio,
                               std::vector<int64_t>& kept_ptr);
constexpr double kTieUlps = 256;

/// Pooling by a learned projection (Gao and Ji, "Graph U-Nets", arXiv 1905.05178; Cangea et al., "Towards Sparse
/// Hierarchical Graph Classifiers", arXiv 1811.01287; the same as PyTorch Geometric's TopKPooling but for its ties):
///   s = x p / |p|,  the ceil(ratio n) nodes of largest s stay,  x' = x tanh(s),  A' = A among those that stay.
/// Parameter: weight (p).
class TopKPool : public torch::nn::Module {
 public:
  TopKPool(int64_t width, double ratio);

  /// x [nodes, width] → [kept nodes, width]; `graphs` becomes what is left. The choice carries no gradient, tanh(s)
  /// does.
  torch::Tensor forward(const torch::Tensor& x, GraphBatch& graphs) const;
  /// The same as an operation, by the names of the adjacency and of the pool of the graphs' nodes.
  std::string describe(FormWriter& writer, const std::string& x, const std::string& adjacency,
                       const std::string& nodes) const;

 private:
  double ratio_;
  torch::Tensor weight_;  // [width]
};

}  // namespace foretime::models
