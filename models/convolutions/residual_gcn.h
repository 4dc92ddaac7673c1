#pragma once

#include "models/convolutions/convolution.h"
#include "models/layers/dense.h"

namespace foretime::models {

/// The layer of the published TpuGraphs layout baseline ("ResModel"): MLP(Â concat(layout, x)), where the MLP is two
/// linear layers with an activation between them, and Â as in GcnConvolution. Without layouts the input is x alone.
class ResidualGcnConvolution : public Convolution {
 public:
  ResidualGcnConvolution(int64_t layout_width, int64_t input, int64_t output, const Activation& activation,
                         double dropout);
  torch::Tensor forward(const torch::Tensor& states, Hops hops, const StateLayout& layout, double slope) override;
  std::string describe(FormWriter& writer, const std::string& states, const FormHops& hops, const FormLayout& layout,
                       double slope) const override;

 private:
  int64_t layout_width_, input_;
  std::shared_ptr<DenseStack> mlp_;
};

}  // namespace foretime::models
