#include "models/convolutions/residual_gcn.h"

namespace foretime::models {

ResidualGcnConvolution::ResidualGcnConvolution(int64_t layout_width, int64_t input, int64_t output,
                                               const Activation& activation, double dropout)
    : layout_width_(layout_width), input_(input) {
  const DenseOptions options{.bias = true, .activate_last = false, .dropout = dropout};
  mlp_ = register_module("mlp", std::make_shared<DenseStack>(std::vector<int64_t>{layout_width + input, output, output},
                                                             activation, options));
}

torch::Tensor ResidualGcnConvolution::forward(const torch::Tensor& states, Hops hops, const StateLayout& layout,
                                              double slope) {
  auto joined = torch::linear(states, mlp_->first_weight(layout_width_, input_));
  if (layout.row_of_state.defined()) {
    const auto by_row = torch::linear(layout.rows, mlp_->first_weight(0, layout_width_));
    joined = joined + csr_matmul(layout.row_of_state, by_row);
  }
  const auto summed = csr_sum({{&hops[0].relations[0], joined}}, mlp_->first_epilogue());
  return activated(mlp_->after_first(summed), slope);
}

}  // namespace foretime::models
