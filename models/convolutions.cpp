#include "models/convolutions.h"

#include "models/csr_ops.h"

namespace foretime::models {
namespace {

torch::nn::Linear linear(int64_t input, int64_t output, bool bias) {
  return torch::nn::Linear(torch::nn::LinearOptions(input, output).bias(bias));
}

}  // namespace

torch::Tensor own_states(const torch::Tensor& states, const LayerTensors& layer) {
  return layer.self.defined() ? gather_rows(states, layer.self) : states;
}

// Each convolution multiplies by its weights before it propagates: the order does not matter to the result, plans never
// have more states below than above, and what is propagated is never wider than the output.

GcnConvolution::GcnConvolution(int64_t input, int64_t output)
    : linear_(register_module("linear", linear(input, output, true))) {}

std::vector<data::RelationSpec> GcnConvolution::relations() {
  return {{data::Direction::both, data::EdgeNorm::symmetric, /*self_loop=*/true}};
}

torch::Tensor GcnConvolution::forward(const torch::Tensor& states, const LayerTensors& layer, const StateLayout&) {
  return csr_matmul(layer.relations[0], torch::linear(states, linear_->weight)).add_(linear_->bias);
}

SageConvolution::SageConvolution(int64_t input, int64_t output)
    : own_(register_module("own", linear(input, output, true))),
      producers_(register_module("producers", linear(input, output, false))),
      consumers_(register_module("consumers", linear(input, output, false))) {}

std::vector<data::RelationSpec> SageConvolution::relations() {
  return {{data::Direction::in, data::EdgeNorm::mean, false}, {data::Direction::out, data::EdgeNorm::mean, false}};
}

torch::Tensor SageConvolution::forward(const torch::Tensor& states, const LayerTensors& layer, const StateLayout&) {
  return csr_matmul(layer.relations[0], producers_->forward(states))
      .add_(csr_matmul(layer.relations[1], consumers_->forward(states)))
      .add_(own_states(own_->forward(states), layer));
}

ResidualGcnConvolution::ResidualGcnConvolution(int64_t layout_width, int64_t width, const Activation& activation,
                                               double dropout)
    : layout_width_(layout_width), width_(width) {
  const DenseOptions options{.bias = true, .activate_last = false, .dropout = dropout};
  mlp_ = register_module("mlp", std::make_shared<DenseStack>(std::vector<int64_t>{layout_width + width, width, width},
                                                             activation, options));
}

torch::Tensor ResidualGcnConvolution::forward(const torch::Tensor& states, const LayerTensors& layer,
                                              const StateLayout& layout) {
  auto joined = torch::linear(states, mlp_->first_weight(layout_width_, width_));
  if (layout.row_of_state.defined()) {
    const auto by_row = torch::linear(layout.rows, mlp_->first_weight(0, layout_width_));
    joined = joined.add_(gather_rows(by_row, layout.row_of_state));
  }
  return mlp_->after_first(csr_matmul(layer.relations[0], joined).add_(mlp_->first_bias()));
}

}  // namespace foretime::models
