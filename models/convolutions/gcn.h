#pragma once

#include "models/convolutions/convolution.h"

namespace foretime::models {

/// Graph convolution (Kipf and Welling, arXiv 1609.02907): Â x Wᵀ + b. Parameters: linear.weight, linear.bias.
class GcnConvolution : public Convolution {
 public:
  GcnConvolution(int64_t input, int64_t output);
  /// Â = D^-½ (A + Aᵀ + I) D^-½.
  static std::vector<plans::RelationSpec> relations();
  torch::Tensor forward(const torch::Tensor& states, Hops hops, const StateLayout& layout, double slope) override;
  std::string describe(FormWriter& writer, const std::string& states, const FormHops& hops, const FormLayout& layout,
                       double slope) const override;

 private:
  torch::nn::Linear linear_{nullptr};
};

}  // namespace foretime::models
