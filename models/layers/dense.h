#pragma once

#include <cstdint>
#include <vector>

#include "configs/settings.h"
#include "models/graph/graph_builder.h"

namespace foretime::models {

/// What negative numbers are multiplied by: model.activation, model.leaky_slope.
double activation_slope(const configs::ModelSettings& settings);

struct DenseOptions {
  bool bias = true;
  bool activate_last = true;  // false: the last layer stays linear
  double dropout = 0.0;       // after each activation, in training
};

/// Linear layers with an activation after each. Parameters: 0.weight, 0.bias, 1.weight, … below `name`.
class DenseStack {
 public:
  DenseStack() = default;
  /// widths: input, then output of each layer; at least one layer.
  DenseStack(GraphBuilder& builder, const std::string& name, const std::vector<int64_t>& widths, double slope,
             const DenseOptions& options);

  Value operator()(GraphBuilder& builder, Value x) const;

  /// For callers that have a cheaper way to the first layer's output than from the joined input: they multiply slices
  /// of its weight on their own, add them up with its bias and slope, and hand the result to after_first.
  const Linear& first() const { return layers_.front(); }
  double first_slope() const { return slope_of(0); }
  Value after_first(GraphBuilder& builder, Value first_output) const;

 private:
  double slope_of(size_t layer) const { return options_.activate_last || layer + 1 < layers_.size() ? slope_ : 1.0; }

  std::vector<Linear> layers_;
  double slope_ = 1.0;
  DenseOptions options_;
};

}  // namespace foretime::models
