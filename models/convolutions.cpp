#include "models/convolutions.h"

#include "models/csr_ops.h"

namespace foretime::models {
namespace {

/// Whether matrix * (x * weightᵀ) takes fewer multiplications than (matrix * x) * weightᵀ.
bool multiplies_first(const CsrTensor& matrix, const torch::Tensor& weight) {
  const int64_t output = weight.size(0), input = weight.size(1), entries = matrix.columns.size(0);
  return matrix.cols * input * output + entries * output <= matrix.rows * input * output + entries * input;
}

torch::nn::Linear linear(int64_t input, int64_t output, bool bias) {
  return torch::nn::Linear(torch::nn::LinearOptions(input, output).bias(bias));
}

}  // namespace

torch::Tensor own_states(const torch::Tensor& states, const LayerTensors& layer) {
  return layer.self.defined() ? csr_matmul(layer.self, states) : states;
}

// A (X W) or (A X) W: the order does not matter to the result. Convolutions multiply by their weights first where that
// costs less: plans seldom have more states below than above.

GcnConvolution::GcnConvolution(int64_t input, int64_t output)
    : linear_(register_module("linear", linear(input, output, true))) {}

std::vector<data::RelationSpec> GcnConvolution::relations() {
  return {{data::Direction::both, data::EdgeNorm::symmetric, /*self_loop=*/true}};
}

torch::Tensor GcnConvolution::forward(const torch::Tensor& states, const LayerTensors& layer, const StateLayout&,
                                      double slope) {
  const CsrTensor& matrix = layer.relations[0];
  if (multiplies_first(matrix, linear_->weight)) {
    return csr_sum({{&matrix, torch::linear(states, linear_->weight)}}, {linear_->bias, slope});
  }
  const auto out = linear_->forward(csr_matmul(matrix, states));
  return slope == 1.0 ? out : torch::leaky_relu(out, slope);
}

SageConvolution::SageConvolution(int64_t input, int64_t output)
    : own_(register_module("own", linear(input, output, true))),
      producers_(register_module("producers", linear(input, output, false))),
      consumers_(register_module("consumers", linear(input, output, false))) {}

std::vector<data::RelationSpec> SageConvolution::relations() {
  return {{data::Direction::in, data::EdgeNorm::mean, false}, {data::Direction::out, data::EdgeNorm::mean, false}};
}

torch::Tensor SageConvolution::forward(const torch::Tensor& states, const LayerTensors& layer, const StateLayout&,
                                       double slope) {
  const CsrTensor &in = layer.relations[0], &out = layer.relations[1];
  if (multiplies_first(in, producers_->weight) && multiplies_first(out, consumers_->weight)) {
    const auto own = torch::linear(states, own_->weight);
    std::vector<CsrTermTensor> terms = {{&in, torch::linear(states, producers_->weight)},
                                        {&out, torch::linear(states, consumers_->weight)}};
    if (layer.self.defined()) {
      terms.emplace_back(&layer.self, own);
      return csr_sum(terms, {own_->bias, slope});
    }
    const auto sum = csr_sum(terms, {own_->bias, 1.0}) + own;
    return slope == 1.0 ? sum : torch::leaky_relu(sum, slope);
  }
  const auto joined = torch::cat({own_states(states, layer), csr_matmul(in, states), csr_matmul(out, states)}, 1);
  const auto weight = torch::cat({own_->weight, producers_->weight, consumers_->weight}, 1);
  const auto sum = torch::linear(joined, weight, own_->bias);
  return slope == 1.0 ? sum : torch::leaky_relu(sum, slope);
}

ResidualGcnConvolution::ResidualGcnConvolution(int64_t layout_width, int64_t width, const Activation& activation,
                                               double dropout)
    : layout_width_(layout_width), width_(width) {
  const DenseOptions options{.bias = true, .activate_last = false, .dropout = dropout};
  mlp_ = register_module("mlp", std::make_shared<DenseStack>(std::vector<int64_t>{layout_width + width, width, width},
                                                             activation, options));
}

torch::Tensor ResidualGcnConvolution::forward(const torch::Tensor& states, const LayerTensors& layer,
                                              const StateLayout& layout, double slope) {
  auto joined = torch::linear(states, mlp_->first_weight(layout_width_, width_));
  if (layout.row_of_state.defined()) {
    const auto by_row = torch::linear(layout.rows, mlp_->first_weight(0, layout_width_));
    joined = joined + csr_matmul(layout.row_of_state, by_row);
  }
  const auto out = mlp_->after_first(csr_sum({{&layer.relations[0], joined}}, mlp_->first_epilogue()));
  return slope == 1.0 ? out : torch::leaky_relu(out, slope);
}

}  // namespace foretime::models
