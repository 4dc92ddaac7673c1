#pragma once

#include "models/autograd/run.h"

/// TopK pooling where models/device runs: what is made of scores stays there, and the host waits for nothing.
namespace foretime::models {

/// As top_nodes: [kept] int32. `left` gets all but its adjacency.
struct NodeChoice {
  torch::Tensor kept;    // [kept] int32, ascending
  torch::Tensor stays;   // [nodes] int32: 0 or 1
  torch::Tensor before;  // [nodes + 1] int32: how many nodes before it stay
  GraphBatch left;       // without its adjacency
};
NodeChoice choose_on_device(const torch::Tensor& scores, double ratio, double tie, const GraphBatch& graphs);

/// `graphs` becomes what is left; returns the gather of the nodes that stay.
CsrTensor keep_on_device(const torch::Tensor& scores, double ratio, double tie, GraphBatch& graphs);

/// As symmetrically_normalized.
CsrTensor normalized_on_device(const CsrTensor& adjacency);

/// As pool_of.
PoolTensors pool_on_device(const GraphBatch& graphs, torch::ScalarType type);

}  // namespace foretime::models
