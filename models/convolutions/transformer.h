#pragma once

#include "models/convolutions/convolution.h"

namespace foretime::models {

/// Graph transformer over neighbours (Shi et al., arXiv 2009.03509, without its gate): for each head
///   α_ij = softmax over the neighbours j of i of q_i · k_j / √(width of a head)
///   result_i = W x_i + b + Σ_j α_ij v_j, the heads side by side; a node without neighbours gets no sum.
/// It attends to neighbours and not to all nodes: attention over a whole candidate would make each state depend on all
/// layouts, and no two candidates could share any.
/// Parameters: own.weight, own.bias, query.…, key.…, value.… (the last three without bias).
class TransformerConvolution : public Convolution {
 public:
  /// Throws ModelError where the heads do not divide the output width.
  TransformerConvolution(int64_t input, int64_t output, int64_t heads);
  /// Producers and consumers together.
  static std::vector<plans::RelationSpec> relations();
  torch::Tensor forward(const torch::Tensor& states, Hops hops, const StateLayout& layout, double slope) override;
  std::string describe(FormWriter& writer, const std::string& states, const FormHops& hops, const FormLayout& layout,
                       double slope) const override;

 private:
  int64_t heads_;
  torch::nn::Linear own_{nullptr}, query_{nullptr}, key_{nullptr}, value_{nullptr};
};

}  // namespace foretime::models
