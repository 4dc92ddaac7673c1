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

std::string ResidualGcnConvolution::describe(FormWriter& writer, const std::string& states, const FormHops& hops,
                                             const FormLayout& layout, double slope) const {
  auto joined = writer.dense(states, mlp_->first_weight_name(writer), {}, 1.0, layout_width_);
  if (!layout.rows.empty()) {
    const auto by_row = writer.dense(layout.rows, mlp_->first_weight_name(writer));
    joined = writer.csr_sum({{"", joined}, {layout.row_of_state, by_row}});
  }
  const auto summed =
      writer.csr_sum({{hops[0].relations[0], joined}}, mlp_->first_bias_name(writer), mlp_->first_slope());
  return writer.activated(mlp_->describe_after_first(writer, summed), slope);
}

}  // namespace foretime::models
