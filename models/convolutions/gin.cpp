#include "models/convolutions/gin.h"

namespace foretime::models {

GinConvolution::GinConvolution(int64_t input, int64_t output, const Activation& activation, double dropout)
    : input_(input) {
  const DenseOptions options{.bias = true, .activate_last = false, .dropout = dropout};
  epsilon_ = register_parameter("epsilon", torch::zeros({1}));
  mlp_ = register_module(
      "mlp", std::make_shared<DenseStack>(std::vector<int64_t>{input, output, output}, activation, options));
}

std::vector<data::RelationSpec> GinConvolution::relations() {
  return {{data::Direction::both, data::EdgeNorm::sum, false}};
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

}  // namespace foretime::models
