#pragma once

#include "models/autograd/run.h"

/// TopK pooling (top_nodes.cpp) by the kernels of GPUs: results stay on the device, and the host waits for nothing.
namespace foretime::models {

/// Holds the nodes that TopK pooling on a device keeps.
struct NodeChoice {
  torch::Tensor kept;    // [kept] int32, ascending
  torch::Tensor stays;   // [nodes] int32: 1 if the node is kept, else 0
  torch::Tensor before;  // [nodes + 1] int32: number of kept nodes before each node
  GraphBatch left;       // graphs of the kept nodes, without their adjacency
};
/// Chooses nodes of `graphs` by the rule of top_nodes, which also describes `scores` [nodes], `ratio` and `tie`.
NodeChoice choose_nodes_on_gpu(const torch::Tensor& scores, double ratio, double tie, const GraphBatch& graphs);

/// Replaces `graphs` by the nodes of choose_nodes_on_gpu; returns the matrix [kept, nodes] that selects their states.
CsrTensor keep_nodes_on_gpu(const torch::Tensor& scores, double ratio, double tie, GraphBatch& graphs);

/// Computes symmetrically_normalized for graphs with this adjacency.
CsrTensor symmetrically_normalized_on_gpu(const CsrTensor& adjacency);

/// Computes pool_of; GraphBatch::counts must be defined.
PoolTensors pool_of_on_gpu(const GraphBatch& graphs, torch::ScalarType type);

}  // namespace foretime::models
