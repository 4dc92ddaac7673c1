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

/// The candidates of a group. `ran`: which of them did not fail; undefined where all ran.
struct Candidates {
  const Tensor& scores;
  const Tensor& targets;
  const Tensor& ran;
};

Tensor listmle(const LossSettings& settings, const Candidates& of) {
  const auto order = std::get<1>(torch::sort(of.targets, /*stable=*/true, /*dim=*/0, /*descending=*/false));
  const auto ranked = of.scores.index_select(0, order) / -settings.temperature;
  // The sums run over suffixes, so the list is turned round. logcumsumexp rescales as it goes: no score overflows.
  const auto log_sums = torch::logcumsumexp(ranked.flip({0}), 0).flip({0});
  const auto terms = log_sums - ranked;
  if (!of.ran.defined()) return terms.sum();
  // Nobody knows an order of those that failed: they stand behind all others.
  return torch::where(of.ran.index_select(0, order), terms, torch::zeros_like(terms)).sum();
}

/// Mean of `penalty(score_i - score_j)` over the pairs in which i is the faster one.
Tensor pair_mean(const Candidates& of, const std::function<Tensor(const Tensor&)>& penalty) {
  const auto pairs = of.targets.unsqueeze(1) < of.targets.unsqueeze(0);
  const auto penalties = penalty(of.scores.unsqueeze(1) - of.scores.unsqueeze(0));
  const auto count = pairs.sum().clamp_min(1).to(of.scores.scalar_type());
  return torch::where(pairs, penalties, torch::zeros_like(penalties)).sum() / count;
}

Tensor pairwise_hinge(const LossSettings& settings, const Candidates& of) {
  return pair_mean(of, [&](const Tensor& excess) { return torch::clamp_min(excess + settings.margin, 0.0); });
}

Tensor pairwise_logistic(const LossSettings&, const Candidates& of) {
  // log_sigmoid, unlike softplus, has no threshold beyond which it changes its formula.
  return pair_mean(of, [](const Tensor& excess) { return -torch::log_sigmoid(-excess); });
}

/// Of a loss of each candidate: mean over those that ran.
using Residuals = std::function<Tensor(const Tensor& scores, const Tensor& targets, int64_t reduction)>;
Tensor residual_mean(const Candidates& of, const Residuals& loss) {
  if (!of.ran.defined()) return loss(of.scores, of.targets.to(of.scores.scalar_type()), at::Reduction::Mean);
  const auto known = torch::where(of.ran, of.targets, torch::zeros_like(of.targets)).to(of.scores.scalar_type());
  const auto each = loss(of.scores, known, at::Reduction::None);
  return torch::where(of.ran, each, torch::zeros_like(each)).sum() /
         of.ran.sum().clamp_min(1).to(of.scores.scalar_type());
}

Tensor mse(const LossSettings&, const Candidates& of) {
  return residual_mean(of, [](const Tensor& s, const Tensor& t, int64_t how) { return torch::mse_loss(s, t, how); });
}

Tensor huber(const LossSettings& settings, const Candidates& of) {
  return residual_mean(
      of, [&](const Tensor& s, const Tensor& t, int64_t how) { return torch::huber_loss(s, t, how, settings.delta); });
}

Tensor l1(const LossSettings&, const Candidates& of) {
  return residual_mean(of, [](const Tensor& s, const Tensor& t, int64_t how) { return torch::l1_loss(s, t, how); });
}

using Loss = Tensor (*)(const LossSettings&, const Candidates&);

/// In the order of configs::LossType.
constexpr Loss kLosses[] = {listmle, pairwise_hinge, pairwise_logistic, mse, huber, l1};

Loss find_loss(configs::LossType type) { return kLosses[static_cast<size_t>(type)]; }

/// As Candidates wants it. Asks the targets where they are: on the CPU, before they go to a device.
Tensor those_that_ran(const Tensor& targets, torch::Device device) {
  const auto ran = torch::isinf(targets).logical_not();
  return ran.all().item<bool>() ? Tensor() : ran.to(device);
}

void check_vectors(const Tensor& scores, const Tensor& targets) {
  if (scores.dim() == 1 && targets.dim() == 1 && scores.numel() == targets.numel()) return;
  throw ModelError("loss: scores of shape [{}] and targets of shape [{}], expected vectors of one length",
                   fmt::join(scores.sizes(), ", "), fmt::join(targets.sizes(), ", "));
}

Tensor unchecked_loss(const LossSettings& settings, Loss loss, const Candidates& of) {
  if (of.scores.numel() == 0) return connected_zero(of.scores);
  auto sum = loss(settings, of);
  if (settings.mse_weight > 0.0) sum = sum + settings.mse_weight * mse(settings, of);
  if (settings.huber_weight > 0.0) sum = sum + settings.huber_weight * huber(settings, of);
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
  const auto all = transform_.targets(group, ids);
  const auto values = all.index({torch::isinf(all).logical_not()});
  sums_.add_(torch::stack(
      {torch::full({}, static_cast<double>(values.numel()), torch::kDouble), values.sum(), values.square().sum()}));
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
  const auto placed = targets.to(scores.device()), ran = those_that_ran(targets, scores.device());
  return unchecked_loss(settings, find_loss(settings.type), {scores, placed, ran});
}

Tensor batch_loss(const LossSettings& settings, const Tensor& outputs, const Tensor& targets,
                  const std::vector<int64_t>& group_ptr, const std::vector<double>& weights) {
  const bool tells = outputs.dim() == 2 && outputs.size(1) == 2;
  const auto scores = tells ? outputs.select(1, 0) : outputs, logits = tells ? outputs.select(1, 1) : Tensor();
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
  const auto placed = targets.to(scores.device()), ran = those_that_ran(targets, scores.device());
  auto total = connected_zero(scores);
  for (size_t g = 0; g < weights.size(); ++g) {
    const auto count = group_ptr[g + 1] - group_ptr[g];
    if (weights[g] == 0.0) continue;
    const auto part = [&](const Tensor& all) { return all.defined() ? all.narrow(0, group_ptr[g], count) : all; };
    const auto own_scores = part(scores), own_targets = part(placed), own_ran = part(ran);
    auto own = unchecked_loss(settings, loss, {own_scores, own_targets, own_ran});
    if (tells && count > 0) {
      const auto failed = torch::isinf(own_targets).to(logits.scalar_type());
      own = own + settings.failure_weight * torch::binary_cross_entropy_with_logits(part(logits), failed);
    }
    total = total + weights[g] * own;
  }
  return total;
}

}  // namespace foretime::models
