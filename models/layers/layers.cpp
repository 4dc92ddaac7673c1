#include "models/layers/layers.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace foretime::models {
namespace {

constexpr double kEpsilon = 1e-5;

using Over = MatrixRef::Kind;

}  // namespace

double activation_slope(const configs::ModelSettings& settings) {
  return settings.activation == configs::Activation::relu ? 0.0 : settings.leaky_slope;
}

DenseStack::DenseStack(GraphBuilder& builder, const std::string& name, const std::vector<int64_t>& widths, double slope,
                       const DenseOptions& options)
    : slope_(slope), options_(options) {
  FORETIME_CHECK(widths.size() >= 2, "{}: no dense layers", name);
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

Normalization::Normalization(GraphBuilder& builder, const std::string& name, configs::Norm type, int64_t width)
    : type_(type) {
  const GraphBuilder::Scope scope(builder, name);
  const Initial ones{Initial::Kind::constant, 1.0};
  weight_ = builder.parameter("weight", {width}, ones);
  bias_ = builder.parameter("bias", {width}, {});
  if (type == configs::Norm::graph) mean_scale_ = builder.parameter("mean_scale", {width}, ones);
  if (type == configs::Norm::batch) {
    running_mean_ = builder.buffer("running_mean", {width}, 0.0);
    running_variance_ = builder.buffer("running_variance", {width}, 1.0);
  }
}

Value Normalization::operator()(GraphBuilder& b, Value x, int64_t level) const {
  if (type_ == configs::Norm::layer)
    return b.emit(inference::LayerNorm{.x = x, .weight = weight_, .bias = bias_, .epsilon = kEpsilon});
  if (type_ == configs::Norm::batch)
    return b.emit(inference::BatchNorm{.x = x,
                                       .weight = weight_,
                                       .bias = bias_,
                                       .mean = running_mean_,
                                       .variance = running_variance_,
                                       .epsilon = kEpsilon,
                                       .level = level});
  const MatrixRef nodes{MatrixRef::Kind::nodes}, candidate_of{MatrixRef::Kind::candidate_of};
  const auto mean_of = [&](Value v) { return b.pool_mean(b.pool(v, nodes, inference::PoolStates::Mode::sum), nodes); };
  const Value mean = b.emit(inference::Scale{.x = b.csr_sum({{candidate_of, mean_of(x)}}), .factors = mean_scale_});
  const Value centered = b.add({x, mean}, {1.0, -1.0});
  const Value variance = mean_of(b.multiply(centered, centered));
  const Value factor = b.csr_sum({{candidate_of, b.function(variance, inference::Activate::Mode::rsqrt, kEpsilon)}});
  const Value weighted = b.emit(inference::Scale{.x = centered, .factors = weight_});
  return b.add({b.multiply(weighted, factor)}, {}, bias_);
}

bool is_running_statistic(const std::string& name) {
  return name.ends_with(".running_mean") || name.ends_with(".running_variance");
}

Readout::Readout(const std::vector<configs::ReadoutPart>& parts, data::CandidateKind kind) {
  using P = configs::ReadoutPart;
  static constexpr std::pair<P, Part> kParts[] = {
      {P::mean, {Pooling::mean, Over::nodes}},
      {P::sum, {Pooling::sum, Over::nodes}},
      {P::max, {Pooling::max, Over::nodes}},
      {P::normalized_sum, {Pooling::normalized_sum, Over::nodes}},
      {P::configurable_mean, {Pooling::mean, Over::configurable}},
      {P::configurable_sum, {Pooling::sum, Over::configurable}},
      {P::configurable_max, {Pooling::max, Over::configurable}},
      {P::configurable_normalized_sum, {Pooling::normalized_sum, Over::configurable}},
      {P::decision_mean, {Pooling::mean, Over::tied}},
      {P::decision_sum, {Pooling::sum, Over::tied}},
      {P::decision_normalized_sum, {Pooling::normalized_sum, Over::tied}},
  };
  if (parts.empty()) throw ModelError("model.readout: empty, expected at least one part");
  for (const P part : parts) {
    if (std::ranges::count(parts, part) > 1) throw ModelError("model.readout: '{}' occurs twice", word_of(part));
    parts_.push_back(std::ranges::find(kParts, part, &std::pair<P, Part>::first)->second);
    if (parts_.back().over != Over::nodes && kind != data::CandidateKind::layout)
      throw ModelError(
          "model.readout: '{}' needs configurable nodes, which only layout data have; for data.format {} set mean, "
          "sum, max or normalized_sum, such as model.readout: [mean]",
          word_of(part), data::kind_name(kind));
  }
}

bool Readout::needs_tied() const {
  return std::any_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.over == Over::tied; });
}

Value Readout::operator()(GraphBuilder& builder, Value states, std::vector<PooledStates>& pools,
                          const MatrixRef& nodes) const {
  std::vector<Value> columns(parts_.size());
  for (const Over over : {Over::nodes, Over::configurable, Over::tied}) {
    PooledStates pooled{over == Over::nodes ? nodes : MatrixRef{over}, {}, {}};
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i].over != over) continue;
      const bool maximum = parts_[i].pooling == Pooling::max;
      Value& value = maximum ? pooled.maximum : pooled.sum;
      if (!value.defined())
        value = builder.pool(states, pooled.pool,
                             maximum ? inference::PoolStates::Mode::max : inference::PoolStates::Mode::sum);
      columns[i] = value;
      if (parts_[i].pooling == Pooling::mean) columns[i] = builder.pool_mean(value, pooled.pool);
      if (parts_[i].pooling == Pooling::normalized_sum) columns[i] = builder.l2_normalized(value);
    }
    if (pooled.sum.defined() || pooled.maximum.defined()) pools.push_back(pooled);
  }
  return builder.join(columns);
}

}  // namespace foretime::models
