#include "models/layers/normalization.h"

namespace foretime::models {
namespace {

constexpr double kEpsilon = 1e-5;

}  // namespace

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
  if (type_ == configs::Norm::batch) {
    return b.emit(inference::BatchNorm{.x = x,
                                       .weight = weight_,
                                       .bias = bias_,
                                       .mean = running_mean_,
                                       .variance = running_variance_,
                                       .epsilon = kEpsilon,
                                       .level = level});
  }
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

}  // namespace foretime::models
