#include "models/convolutions/gin.h"

namespace foretime::models {

GinConvolution::GinConvolution(int64_t input, int64_t output, const Activation& activation, double dropout)
    : input_(input) {
  const DenseOptions options{.bias = true, .activate_last = false, .dropout = dropout};
  epsilon_ = register_parameter("epsilon", torch::zeros({1}));
  mlp_ = register_module(
      "mlp", std::make_shared<DenseStack>(std::vector<int64_t>{input, output, output}, activation, options));
}

std::vector<plans::RelationSpec> GinConvolution::relations() {
  return {{plans::Direction::both, plans::EdgeNorm::sum, false}};
}

torch::Tensor GinConvolution::forward(const torch::Tensor& states, Hops hops, const StateLayout&, double slope) {
  // The first linear layer comes before the sum, which it commutes with: the sum's pass then adds bias and activation.
  const LayerTensors& layer = hops[0];
  const auto first = torch::linear(states, mlp_->first_weight(0, input_));
  const auto own = first * (1 + epsilon_);
  std::vector<CsrTermTensor> terms = {{&layer.relations[0], first}};
  if (layer.self.defined()) {
    terms.emplace_back(&layer.self, own);
    return activated(mlp_->after_first(csr_sum(terms, mlp_->first_epilogue())), slope);
  }
  const auto epilogue = mlp_->first_epilogue();
  const auto summed = csr_sum(terms, {epilogue.bias, 1.0}) + own;
  return activated(mlp_->after_first(activated(summed, epilogue.slope)), slope);
}

std::string GinConvolution::describe(FormWriter& writer, const std::string& states, const FormHops& hops,
                                     const FormLayout&, double slope) const {
  const auto first = writer.dense(states, mlp_->first_weight_name(writer));
  const auto factor = writer.constant((1 + epsilon_).expand({mlp_->first_weight(0, input_).size(0)}));
  const auto zeros = writer.constant(torch::zeros({mlp_->first_weight(0, input_).size(0)}));
  const auto own =
      writer.emit({.op = "normalize", .result = {}, .inputs = {first}, .weights = {factor, zeros}, .mode = "affine"});
  const auto summed = writer.csr_sum({{hops[0].relations[0], first}, {hops[0].self, own}},
                                     mlp_->first_bias_name(writer), mlp_->first_slope());
  return writer.activated(mlp_->describe_after_first(writer, summed), slope);
}

}  // namespace foretime::models
