#include "models/convolutions/preactivated_gcn.h"

namespace foretime::models {

PreactivatedGcnConvolution::PreactivatedGcnConvolution(int64_t width, const Activation& activation, double dropout)
    : width_(width), activation_(activation) {
  const DenseOptions options{.bias = true, .activate_last = false, .dropout = dropout};
  mlp_ = register_module("mlp",
                         std::make_shared<DenseStack>(std::vector<int64_t>{width, width, width}, activation, options));
}

std::vector<plans::RelationSpec> PreactivatedGcnConvolution::relations() {
  return {{plans::Direction::out, plans::EdgeNorm::mean, /*self_loop=*/true},
          {plans::Direction::in, plans::EdgeNorm::sender, /*self_loop=*/true}};
}

torch::Tensor PreactivatedGcnConvolution::forward(const torch::Tensor& states, Hops hops, const StateLayout&,
                                                  double slope) {
  const LayerTensors& layer = hops[0];
  // The first linear layer comes before the sums, which it commutes with.
  const auto first = torch::linear(activation_(states), mlp_->first_weight(0, width_));
  const auto epilogue = mlp_->first_epilogue();
  const auto summed = csr_sum({{&layer.relations[0], first}, {&layer.relations[1], first}}, {epilogue.bias, 1.0});
  return activated(mlp_->after_first(activated(summed + own_states(first, layer), epilogue.slope)), slope);
}

std::string PreactivatedGcnConvolution::describe(FormWriter& writer, const std::string& states, const FormHops& hops,
                                                 const FormLayout&, double slope) const {
  const auto first = writer.dense(writer.activated(states, activation_.slope()), mlp_->first_weight_name(writer));
  const auto& hop = hops[0];
  const auto summed = writer.csr_sum({{hop.relations[0], first}, {hop.relations[1], first}, {hop.self, first}},
                                     mlp_->first_bias_name(writer), mlp_->first_slope());
  return writer.activated(mlp_->describe_after_first(writer, summed), slope);
}

}  // namespace foretime::models
