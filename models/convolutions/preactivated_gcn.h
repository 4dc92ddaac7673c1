#pragma once

#include "models/convolutions/convolution.h"
#include "models/layers/dense.h"

namespace foretime::models {

/// The layer of TpuGraphs' tile baselines EarlyJoinResGCN and LateJoinResGCN: MLP((N + Nᵀ + I) act(x)), to be added to
/// x, where the MLP is two linear layers with an activation between them. N = D^-1 (A + I), in which a producer
/// receives from its consumers: published code takes the first column of edge_index, the consumer, for an edge's
/// source.
class PreactivatedGcnConvolution : public Convolution {
 public:
  PreactivatedGcnConvolution(int64_t width, const Activation& activation, double dropout);
  static std::vector<plans::RelationSpec> relations();
  torch::Tensor forward(const torch::Tensor& states, Hops hops, const StateLayout& layout, double slope) override;
  std::string describe(FormWriter& writer, const std::string& states, const FormHops& hops, const FormLayout& layout,
                       double slope) const override;

 private:
  int64_t width_;
  Activation activation_;
  std::shared_ptr<DenseStack> mlp_;
};

}  // namespace foretime::models
