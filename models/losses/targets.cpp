#include "models/losses/targets.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "models/graph/error.h"

namespace foretime::models {

TargetTransform TargetTransform::from(const configs::LossSettings& settings) {
  TargetTransform result;
  result.kind = settings.target;
  if (result.kind == Kind::runtime) result.scale = settings.target_scale;
  return result;
}

double TargetTransform::to_target(double runtime, double flop) const {
  double value = runtime * scale;
  if (kind != Kind::runtime) {
    if (!(runtime > 0)) throw ModelError(fmt::format("run time: {}, expected more than 0 for its logarithm", runtime));
    value = std::log(runtime);
  }
  if (kind == Kind::log_runtime_per_flop) {
    if (!(flop > 0)) throw ModelError(fmt::format("flop count: {}, expected more than 0 for its logarithm", flop));
    value -= std::log(flop);
  }
  return (value - mean) / deviation;
}

torch::Tensor TargetTransform::targets(const data::Group& group, const std::vector<int64_t>& ids) const {
  const bool per_flop = kind == Kind::log_runtime_per_flop;
  if (per_flop && group.flops.empty()) {
    throw ModelError(fmt::format("{}: no flop counts, expected them for loss.target log_runtime_per_flop", group.name));
  }
  auto result = torch::empty({static_cast<int64_t>(ids.size())}, torch::kDouble);
  double* out = result.data_ptr<double>();
  try {
    for (const int64_t id : ids) *out++ = to_target(group.runtimes[id], per_flop ? group.flops[id] : 1.0);
  } catch (const ModelError& error) {
    throw ModelError(fmt::format("{}: {}", group.name, error.what()));
  }
  return result;
}

void TargetStatistics::add(const data::Group& group, const std::vector<int64_t>& ids) {
  const auto values = transform_.targets(group, ids);
  sums_.add_(torch::stack(
      {torch::full({}, static_cast<double>(ids.size()), torch::kDouble), values.sum(), values.square().sum()}));
}

TargetTransform TargetStatistics::fit() const {
  const auto* sums = sums_.data_ptr<double>();
  if (!(sums[0] > 0)) throw ModelError("target statistics: no targets, expected at least one");
  TargetTransform result = transform_;
  result.mean = sums[1] / sums[0];
  const double deviation = std::sqrt(std::max(0.0, sums[2] / sums[0] - result.mean * result.mean));
  // What cancellation leaves of equal targets is no deviation.
  constexpr double kRounding = 1e-7;
  result.deviation = deviation > kRounding * std::abs(result.mean) ? deviation : 1.0;
  return result;
}

}  // namespace foretime::models
