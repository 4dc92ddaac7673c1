#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "configs/settings.h"

namespace foretime::models {

/// Elementwise non-linearity of a model: model.activation, model.leaky_slope.
class Activation {
 public:
  /// Throws ModelError for an unknown name.
  explicit Activation(const configs::ModelSettings& settings);
  torch::Tensor operator()(const torch::Tensor& x) const;

 private:
  bool leaky_;
  double slope_;
};

struct DenseOptions {
  bool bias = true;
  bool activate_last = true;  // false: the last layer stays linear
  double dropout = 0.0;       // after each activation, in training mode
};

/// Linear layers with an activation after each. The parameters are named 0.weight, 0.bias, 1.weight, …
class DenseStack : public torch::nn::Module {
 public:
  /// widths: input, then output of each layer; at least one layer.
  DenseStack(const std::vector<int64_t>& widths, const Activation& activation, const DenseOptions& options);

  torch::Tensor forward(const torch::Tensor& x) { return after_first(layers_.front()->forward(x)); }

  /// The rest of `forward`, from the first layer's output before its activation: callers that can compute that output
  /// in a cheaper way than from the joined input do so.
  torch::Tensor after_first(const torch::Tensor& first_output);

  /// The columns [start, start + count) of the first layer's weight: [outputs, count].
  torch::Tensor first_weight(int64_t start, int64_t count) const;
  /// The first layer's bias, undefined where it has none.
  torch::Tensor first_bias() const { return layers_.front()->bias; }

 private:
  torch::Tensor activate(const torch::Tensor& x);

  std::vector<torch::nn::Linear> layers_;
  Activation activation_;
  DenseOptions options_;
};

/// Each row over its Euclidean norm; a row of zeros stays zero.
torch::Tensor l2_normalized(const torch::Tensor& x);

}  // namespace foretime::models
