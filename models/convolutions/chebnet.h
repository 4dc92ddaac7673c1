#pragma once

#include "models/convolutions/convolution.h"

namespace foretime::models {

/// Chebyshev spectral convolution (Defferrard et al., arXiv 1606.09375):
///   Σ_k<K T_k(L̃) x W_k + b, T_0 = x, T_1 = L̃ x, T_k = 2 L̃ T_(k-1) - T_(k-2),
/// L̃ = 2 L / λmax - I the scaled Laplacian of the undirected graph. It spans K - 1 layers of the plan, since T_k
/// reaches k steps. Parameters: terms.0.weight … terms.(K-1).weight, terms.0.bias.
class ChebConvolution : public Convolution {
 public:
  ChebConvolution(int64_t input, int64_t output, int64_t order);
  /// `order` is K ≥ 1; `estimated`: λmax by power iteration (data::EdgeNorm::laplacian), else 2.
  static std::vector<plans::RelationSpec> relations(bool estimated);
  static int64_t hops(int64_t order) { return order - 1; }
  torch::Tensor forward(const torch::Tensor& states, Hops hops, const StateLayout& layout, double slope) override;
  std::string describe(FormWriter& writer, const std::string& states, const FormHops& hops, const FormLayout& layout,
                       double slope) const override;

 private:
  std::vector<torch::nn::Linear> terms_;
};

}  // namespace foretime::models
