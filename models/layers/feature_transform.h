#pragma once

#include <cstdint>
#include <string>

#include <torch/torch.h>

#include "configs/settings.h"
#include "models/form_writer.h"

namespace foretime::models {

/// Columns of raw features made comparable: (f(x) - offset) * scale, f(x) = sign(x) log(1 + |x|) where features.log is
/// set, else x. Offset and scale are buffers of those names, so that they are saved with the weights.
class FeatureTransform : public torch::nn::Module {
 public:
  /// Leaves features as they are until `fit`. Throws ModelError for an unknown transform.
  FeatureTransform(const configs::FeatureSettings& settings, int64_t columns);

  /// x [rows, columns] → the same shape.
  torch::Tensor forward(const torch::Tensor& x) const;
  std::string describe(FormWriter& writer, const std::string& x) const;

  /// minmax: the training range becomes [0, 1]; zscore: mean 0, deviation 1; none: nothing but f. Columns that are
  /// constant over the training graphs become 0, except for none. All arguments are [columns] float64, taken after f.
  void fit(const torch::Tensor& minimum, const torch::Tensor& maximum, const torch::Tensor& mean,
           const torch::Tensor& deviation);

 private:
  configs::FeatureSettings settings_;
  torch::Tensor offset_, scale_;
};

}  // namespace foretime::models
