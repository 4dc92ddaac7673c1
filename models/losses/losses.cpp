#include "models/losses/losses.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>

#include <fmt/ranges.h>

#include "models/graph/error.h"

namespace foretime::models {
namespace {

using configs::LossSettings;
using torch::Tensor;

/// Zero that backward passes through, whatever the scores hold.
Tensor connected_zero(const Tensor& scores) { return scores.narrow(0, 0, 0).sum(); }

Tensor listmle(const LossSettings& settings, const Tensor& scores, const Tensor& targets) {
  const auto order = std::get<1>(torch::sort(targets, /*stable=*/true, /*dim=*/0, /*descending=*/false));
  const auto ranked = scores.index_select(0, order) / -settings.temperature;
  // The sums run over suffixes, so the list is turned round. logcumsumexp rescales as it goes: no score overflows.
  const auto log_sums = torch::logcumsumexp(ranked.flip({0}), 0).flip({0});
  return (log_sums - ranked).sum();
}

/// Mean of `penalty(score_i - score_j)` over the pairs in which i is the faster one.
Tensor pair_mean(const Tensor& scores, const Tensor& targets, const std::function<Tensor(const Tensor&)>& penalty) {
  const auto pairs = targets.unsqueeze(1) < targets.unsqueeze(0);
  const auto penalties = penalty(scores.unsqueeze(1) - scores.unsqueeze(0));
  const auto count = pairs.sum().clamp_min(1).to(scores.scalar_type());
  return torch::where(pairs, penalties, torch::zeros_like(penalties)).sum() / count;
}

Tensor pairwise_hinge(const LossSettings& settings, const Tensor& scores, const Tensor& targets) {
  return pair_mean(scores, targets,
                   [&](const Tensor& excess) { return torch::clamp_min(excess + settings.margin, 0.0); });
}

Tensor pairwise_logistic(const LossSettings&, const Tensor& scores, const Tensor& targets) {
  // log_sigmoid, unlike softplus, has no threshold beyond which it changes its formula.
  return pair_mean(scores, targets, [](const Tensor& excess) { return -torch::log_sigmoid(-excess); });
}

Tensor mse(const LossSettings&, const Tensor& scores, const Tensor& targets) {
  return torch::mse_loss(scores, targets.to(scores.scalar_type()));
}

Tensor huber(const LossSettings& settings, const Tensor& scores, const Tensor& targets) {
  return torch::huber_loss(scores, targets.to(scores.scalar_type()), at::Reduction::Mean, settings.delta);
}

Tensor l1(const LossSettings&, const Tensor& scores, const Tensor& targets) {
  return torch::l1_loss(scores, targets.to(scores.scalar_type()));
}

using Loss = Tensor (*)(const LossSettings&, const Tensor&, const Tensor&);

/// In the order of configs::LossType.
constexpr Loss kLosses[] = {listmle, pairwise_hinge, pairwise_logistic, mse, huber, l1};

Loss find_loss(configs::LossType type) { return kLosses[static_cast<size_t>(type)]; }

void check_vectors(const Tensor& scores, const Tensor& targets) {
  if (scores.dim() == 1 && targets.dim() == 1 && scores.numel() == targets.numel()) return;
  throw ModelError("loss: scores of shape [{}] and targets of shape [{}], expected vectors of one length",
                   fmt::join(scores.sizes(), ", "), fmt::join(targets.sizes(), ", "));
}

Tensor unchecked_loss(const LossSettings& settings, Loss loss, const Tensor& scores, const Tensor& targets) {
  if (scores.numel() == 0) return connected_zero(scores);
  const auto value = loss(settings, scores, targets);
  auto sum = value;
  if (settings.mse_weight > 0.0) sum = sum + settings.mse_weight * mse(settings, scores, targets);
  if (settings.huber_weight > 0.0) sum = sum + settings.huber_weight * huber(settings, scores, targets);
  return sum / (1.0 + settings.mse_weight + settings.huber_weight);
}

}  // namespace

TargetTransform TargetTransform::from(const configs::LossSettings& settings) {
  TargetTransform result;
  result.kind = settings.target;
  if (result.kind == Kind::runtime) result.scale = settings.target_scale;
  return result;
}

double TargetTransform::to_target(double runtime, double flop) const {
  double value = runtime * scale;
  if (kind != Kind::runtime) {
    if (!(runtime > 0)) throw ModelError("run time: {}, expected more than 0 for its logarithm", runtime);
    value = std::log(runtime);
  }
  if (kind == Kind::log_runtime_per_flop) {
    if (!(flop > 0)) throw ModelError("flop count: {}, expected more than 0 for its logarithm", flop);
    value -= std::log(flop);
  }
  return (value - mean) / deviation;
}

torch::Tensor TargetTransform::targets(const data::Group& group, const std::vector<int64_t>& ids) const {
  const bool per_flop = kind == Kind::log_runtime_per_flop;
  if (per_flop && group.flops.empty()) {
    throw ModelError("{}: no flop counts, expected them for loss.target log_runtime_per_flop", group.name);
  }
  auto result = torch::empty({static_cast<int64_t>(ids.size())}, torch::kDouble);
  double* out = result.data_ptr<double>();
  try {
    for (const int64_t id : ids) *out++ = to_target(group.runtimes[id], per_flop ? group.flops[id] : 1.0);
  } catch (const ModelError& error) {
    throw ModelError("{}: {}", group.name, error.what());
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

Tensor group_loss(const LossSettings& settings, const Tensor& scores, const Tensor& targets) {
  check_vectors(scores, targets);
  return unchecked_loss(settings, find_loss(settings.type), scores, targets.to(scores.device()));
}

Tensor batch_loss(const LossSettings& settings, const Tensor& scores, const Tensor& targets,
                  const std::vector<int64_t>& group_ptr, const std::vector<double>& weights) {
  check_vectors(scores, targets);
  if (group_ptr.size() != weights.size() + 1 || group_ptr.front() != 0 || group_ptr.back() != scores.numel()) {
    throw ModelError(
        "loss: group_ptr [{}] for {} weights and {} scores, expected one start for each weight and the end",
        fmt::join(group_ptr, ", "), weights.size(), scores.numel());
  }
  if (!std::is_sorted(group_ptr.begin(), group_ptr.end())) {
    throw ModelError("loss: group_ptr [{}] descends", fmt::join(group_ptr, ", "));
  }
  const auto loss = find_loss(settings.type);
  const auto placed = targets.to(scores.device());
  auto total = connected_zero(scores);
  for (size_t g = 0; g < weights.size(); ++g) {
    const auto count = group_ptr[g + 1] - group_ptr[g];
    if (weights[g] == 0.0) continue;
    total = total + weights[g] * unchecked_loss(settings, loss, scores.narrow(0, group_ptr[g], count),
                                                placed.narrow(0, group_ptr[g], count));
  }
  return total;
}

}  // namespace foretime::models
