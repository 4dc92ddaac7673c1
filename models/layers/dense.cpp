#include "models/layers/dense.h"

#include <fmt/format.h>

#include "models/error.h"

namespace foretime::models {
namespace {

constexpr double kSmallest = 1e-12;  // as torch.nn.functional.normalize

}  // namespace

Activation::Activation(const configs::ModelSettings& settings)
    : slope_(settings.activation == "leaky_relu" ? settings.leaky_slope : 0.0) {
  if (settings.activation != "leaky_relu" && settings.activation != "relu") {
    throw ModelError(fmt::format("model.activation: '{}', expected relu or leaky_relu", settings.activation));
  }
}

torch::Tensor Activation::operator()(const torch::Tensor& x) const {
  return slope_ == 0.0 ? torch::relu(x) : torch::leaky_relu(x, slope_);
}

DenseStack::DenseStack(const std::vector<int64_t>& widths, const Activation& activation, const DenseOptions& options)
    : activation_(activation), options_(options) {
  if (widths.size() < 2) throw ModelError("dense layers: none, expected at least one");
  for (size_t i = 0; i + 1 < widths.size(); ++i) {
    const auto layer = torch::nn::LinearOptions(widths[i], widths[i + 1]).bias(options.bias);
    layers_.push_back(register_module(std::to_string(i), torch::nn::Linear(layer)));
  }
}

torch::Tensor DenseStack::forward(const torch::Tensor& x) {
  const auto first = layers_.front()->forward(x);
  return after_first(activates(0) ? activation_(first) : first);
}

torch::Tensor DenseStack::first_weight(int64_t start, int64_t count) const {
  return layers_.front()->weight.narrow(1, start, count);
}

SumEpilogue DenseStack::first_epilogue() const { return {layers_.front()->bias, first_slope()}; }

torch::Tensor DenseStack::after_first(const torch::Tensor& first_output) {
  torch::Tensor x = activates(0) ? dropped(first_output) : first_output;
  for (size_t i = 1; i < layers_.size(); ++i) {
    x = layers_[i]->forward(x);
    if (activates(i)) x = dropped(activation_(x));
  }
  return x;
}

std::string DenseStack::describe(FormWriter& writer, const std::string& x) const {
  return describe_after_first(writer,
                              writer.dense(x, first_weight_name(writer), first_bias_name(writer), first_slope()));
}

std::string DenseStack::describe_after_first(FormWriter& writer, const std::string& first_output) const {
  std::string x = first_output;
  for (size_t i = 1; i < layers_.size(); ++i) {
    x = writer.dense(x, writer.weight(layers_[i]->weight), writer.weight(layers_[i]->bias),
                     activates(i) ? activation_.slope() : 1.0);
  }
  return x;
}

torch::Tensor DenseStack::dropped(const torch::Tensor& x) const {
  return options_.dropout > 0 ? torch::dropout(x, options_.dropout, is_training()) : x;
}

torch::Tensor l2_normalized(const torch::Tensor& x) { return x / x.norm(2, -1, /*keepdim=*/true).clamp_min(kSmallest); }

std::string describe_l2_normalized(FormWriter& writer, const std::string& x) {
  return writer.emit(
      {.op = "normalize", .result = {}, .inputs = {x}, .mode = "l2", .numbers = {{"epsilon", kSmallest}}});
}

}  // namespace foretime::models
