#pragma once

#include "models/autograd/run.h"

/// TopK pooling on the device of models/device: results stay there, and the host waits for nothing.
namespace foretime::models {

/// Holds the nodes that TopK pooling on a device keeps.
struct NodeChoice {
  torch::Tensor kept;    // [kept] int32, ascending
  torch::Tensor stays;   // [nodes] int32: 1 if the node is kept, else 0
  torch::Tensor before;  // [nodes + 1] int32: number of kept nodes before each node
  GraphBatch left;       // graphs of the kept nodes, without their adjacency
};
/// Chooses nodes by the rule of top_nodes.
NodeChoice choose_on_device(const torch::Tensor& scores, double ratio, double tie, const GraphBatch& graphs);

/// Replaces `graphs` by its kept nodes, and returns the gather of these nodes.
CsrTensor keep_on_device(const torch::Tensor& scores, double ratio, double tie, GraphBatch& graphs);

/// Computes symmetrically_normalized on the device.
CsrTensor normalized_on_device(const CsrTensor& adjacency);

/// Computes pool_of on the device.
PoolTensors pool_on_device(const GraphBatch& graphs, torch::ScalarType type);

}  // namespace foretime::models
