#pragma once

#include "models/convolutions/convolution.h"

namespace foretime::models {

/// Graph attention (Veličković et al., arXiv 1710.10903; Xu et al. 2024, formulas 2 and 3): with z = W x, for each head
///   α_ij = softmax over the neighbours j of i, itself among them, of LeakyReLU(a · [z_i, z_j])
///   result_i = Σ_j α_ij z_j, the heads side by side, + b.
/// Parameters: linear.weight, target and source [heads, width of a head] (the halves of a), bias.
class GatConvolution : public Convolution {
 public:
  /// Throws ModelError where the heads do not divide the output width.
  GatConvolution(int64_t input, int64_t output, int64_t heads);
  /// Producers and consumers together.
  static std::vector<plans::RelationSpec> relations();
  torch::Tensor forward(const torch::Tensor& states, Hops hops, const StateLayout& layout, double slope) override;
  std::string describe(FormWriter& writer, const std::string& states, const FormHops& hops, const FormLayout& layout,
                       double slope) const override;

 private:
  int64_t heads_;
  torch::nn::Linear linear_{nullptr};
  torch::Tensor target_, source_, bias_;
};

}  // namespace foretime::models
