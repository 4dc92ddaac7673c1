#pragma once

#include "models/convolutions/convolution.h"
#include "models/layers/dense.h"

namespace foretime::models {

/// Graph isomorphism network (Xu et al., arXiv 1810.00826): MLP((1 + ε) x + Σ x of neighbours), ε learned, the MLP two
/// linear layers with an activation between them. Parameters: epsilon, mlp.0.…, mlp.1.….
class GinConvolution : public Convolution {
 public:
  GinConvolution(int64_t input, int64_t output, const Activation& activation, double dropout);
  /// Producers and consumers together.
  static std::vector<plans::RelationSpec> relations();
  torch::Tensor forward(const torch::Tensor& states, Hops hops, const StateLayout& layout, double slope) override;
  std::string describe(FormWriter& writer, const std::string& states, const FormHops& hops, const FormLayout& layout,
                       double slope) const override;

 private:
  int64_t input_;
  torch::Tensor epsilon_;
  std::shared_ptr<DenseStack> mlp_;
};

}  // namespace foretime::models
