#include "models/layers/dense.h"

namespace foretime::models {

double activation_slope(const configs::ModelSettings& settings) {
  return settings.activation == configs::Activation::relu ? 0.0 : settings.leaky_slope;
}

DenseStack::DenseStack(GraphBuilder& builder, const std::string& name, const std::vector<int64_t>& widths, double slope,
                       const DenseOptions& options)
    : slope_(slope), options_(options) {
  if (widths.size() < 2) throw ModelError("dense layers: none, expected at least one");
  const GraphBuilder::Scope scope(builder, name);
  for (size_t i = 0; i + 1 < widths.size(); ++i)
    layers_.push_back(builder.linear(std::to_string(i), widths[i], widths[i + 1], options.bias));
}

Value DenseStack::operator()(GraphBuilder& builder, Value x) const {
  return after_first(builder, builder.dense(x, first(), first_slope()));
}

Value DenseStack::after_first(GraphBuilder& builder, Value first_output) const {
  Value x = first_output;
  for (size_t i = 0; i < layers_.size(); ++i) {
    if (i > 0) x = builder.dense(x, layers_[i], slope_of(i));
    if (options_.activate_last || i + 1 < layers_.size()) x = builder.dropout(x, options_.dropout);
  }
  return x;
}

}  // namespace foretime::models
