#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <torch/torch.h>

#include "configs/settings.h"
#include "models/form_writer.h"
#include "models/sparse/csr_ops.h"

namespace foretime::models {

/// Elementwise non-linearity of a model: model.activation, model.leaky_slope.
class Activation {
 public:
  /// Throws ModelError for an unknown name.
  explicit Activation(const configs::ModelSettings& settings);
  torch::Tensor operator()(const torch::Tensor& x) const;
  /// f(x) = slope * x for negative x, else x.
  double slope() const { return slope_; }

 private:
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

  torch::Tensor forward(const torch::Tensor& x);

  /// `forward` for callers that have a cheaper way to the first layer's output than from the joined input: they
  /// multiply slices of its weight on their own, sum them with `first_epilogue` (which adds the bias and, except in a
  /// stack of one linear layer, activates), and hand the result to `after_first`.
  torch::Tensor first_weight(int64_t start, int64_t count) const;  // columns [start, start + count): [outputs, count]
  SumEpilogue first_epilogue() const;
  torch::Tensor after_first(const torch::Tensor& first_output);

  /// `forward`, and its two halves, as operations. The first layer's weight and bias are named as they are.
  std::string describe(FormWriter& writer, const std::string& x) const;
  std::string describe_after_first(FormWriter& writer, const std::string& first_output) const;
  std::string first_weight_name(FormWriter& writer) const { return writer.weight(layers_.front()->weight); }
  std::string first_bias_name(FormWriter& writer) const { return writer.weight(layers_.front()->bias); }
  double first_slope() const { return activates(0) ? activation_.slope() : 1.0; }

 private:
  bool activates(size_t layer) const { return options_.activate_last || layer + 1 < layers_.size(); }
  torch::Tensor dropped(const torch::Tensor& x) const;

  std::vector<torch::nn::Linear> layers_;
  Activation activation_;
  DenseOptions options_;
};

/// Each row over its Euclidean norm; a row of zeros stays zero.
torch::Tensor l2_normalized(const torch::Tensor& x);
std::string describe_l2_normalized(FormWriter& writer, const std::string& x);

}  // namespace foretime::models
