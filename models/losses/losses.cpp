#include "models/losses/losses.h"

#include <cmath>

#include <fmt/ranges.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/check.h"
#include "base/index_range.h"
#include "models/gpu/launch.h"
#include "models/graph/error.h"
#include "models/sparse/sparse_ops.h"

namespace foretime::models {
namespace {

using configs::LossSettings;
using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// logcumsumexp of each row. Beside another one, a GPU scans a row always in one order; a lone row it may give to an
/// algorithm whose rounding depends on which threads are first.
Tensor log_cumulative_sums(const Tensor& rows) {
  if (rows.size(0) != 1 || !gpu::uses_gpu_kernels(rows.device())) return torch::logcumsumexp(rows, 1);
  return torch::logcumsumexp(rows.expand({2, rows.size(1)}), 1).narrow(0, 0, 1);
}

/// Σ w_i (log Σ_{j <= i} exp(r_j) - r_i) over all rows, with r [rows, places] and w likewise: with a ranking from its
/// end to its start in a row, the negative log-likelihood of its order. logcumsumexp rescales as it goes: no score
/// overflows. Its gradient by r_j is exp(r_j) Σ_{i >= j} w_i / Σ_{k <= i} exp(r_k) - w_j, in logarithms as well.
struct PlackettLuce : torch::autograd::Function<PlackettLuce> {
  static Tensor forward(AutogradContext* context, const Tensor& r, const Tensor& w, const Tensor& log_w) {
    const auto log_sums = log_cumulative_sums(r);
    context->save_for_backward({r, w, log_w, log_sums});
    return ((log_sums - r) * w).sum();
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto &r = saved[0], &w = saved[1], &log_w = saved[2], &log_sums = saved[3];
    const auto shares = log_cumulative_sums((log_w - log_sums).flip({1})).flip({1});
    return {((r + shares).exp() - w) * gradients[0], Tensor(), Tensor()};
  }
};

Tensor listmle(const LossSettings& settings, const LossBlock& block, const Tensor& scores) {
  const auto ranked = torch::add(block.list_offsets, scores, -1 / settings.temperature);
  return PlackettLuce::apply(ranked, block.list_weights, block.list_log_weights);
}

/// Mean of `penalty(score_i - score_j)` over the pairs of a row in which i is the faster one, weighted and summed.
template <class Penalty>
Tensor pair_means(const LossBlock& block, const Tensor& scores, const Penalty& penalty) {
  const auto pairs = block.ranks.unsqueeze(2) < block.ranks.unsqueeze(1);
  const auto penalties = penalty(scores.unsqueeze(2) - scores.unsqueeze(1));
  return (torch::where(pairs, penalties, torch::zeros({}, penalties.options())) * block.pair_weights).sum();
}

Tensor pairwise_hinge(const LossSettings& settings, const LossBlock& block, const Tensor& scores) {
  return pair_means(block, scores,
                    [&](const Tensor& excess) { return torch::clamp_min(excess + settings.margin, 0.0); });
}

Tensor pairwise_logistic(const LossSettings& settings, const LossBlock& block, const Tensor& scores) {
  // log_sigmoid, unlike softplus, has no threshold beyond which it changes its formula.
  return pair_means(block, scores,
                    [&](const Tensor& excess) { return -torch::log_sigmoid(excess * (-1 / settings.temperature)); });
}

Tensor residual_mean(const LossBlock& block, const Tensor& each) { return (each * block.residual_weights).sum(); }

Tensor mse(const LossSettings&, const LossBlock& block, const Tensor& scores) {
  return residual_mean(block, torch::mse_loss(scores, block.targets, at::Reduction::None));
}

Tensor huber(const LossSettings& settings, const LossBlock& block, const Tensor& scores) {
  return residual_mean(block, torch::huber_loss(scores, block.targets, at::Reduction::None, settings.delta));
}

Tensor l1(const LossSettings&, const LossBlock& block, const Tensor& scores) {
  return residual_mean(block, torch::l1_loss(scores, block.targets, at::Reduction::None));
}

using Loss = Tensor (*)(const LossSettings&, const LossBlock&, const Tensor& scores);

/// Loss functions by configs::LossType.
constexpr Loss kLosses[] = {FORETIME_LIST_LOSSES, FORETIME_PAIR_LOSSES, FORETIME_RESIDUAL_LOSSES};

Tensor block_loss(const LossSettings& settings, const LossBlock& block, const Tensor& outputs) {
  const bool tells = outputs.dim() == 2;
  const auto placed = csr_matmul(block.places, tells ? outputs : outputs.unsqueeze(1));
  const auto column = [&](int64_t i) { return placed.select(1, i).view({block.groups, block.longest}); };
  const auto scores = column(0);
  auto sum = kLosses[index_of(settings.type)](settings, block, scores);
  if (settings.mse_weight > 0.0) sum = sum + settings.mse_weight * mse(settings, block, scores);
  if (settings.huber_weight > 0.0) sum = sum + settings.huber_weight * huber(settings, block, scores);
  if (settings.mse_weight > 0.0 || settings.huber_weight > 0.0)
    sum = sum / (1.0 + settings.mse_weight + settings.huber_weight);
  if (!tells) return sum;
  return sum + torch::binary_cross_entropy_with_logits(column(1), block.failed, block.failure_weights, {},
                                                       at::Reduction::Sum);
}

void check_outputs(const Tensor& outputs, int64_t targets) {
  const bool fits = outputs.dim() == 1 || (outputs.dim() == 2 && outputs.size(1) == 2);
  FORETIME_CHECK(fits && outputs.size(0) == targets, "scores of shape [{}] for {} targets",
                 fmt::join(outputs.sizes(), ", "), targets);
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
    if (!(runtime > 0)) throw ModelError("run time {}, expected more than 0: loss.target takes the logarithm", runtime);
    value = std::log(runtime);
  }
  if (kind == Kind::log_runtime_per_flop) {
    if (!(flop > 0))
      throw ModelError("{} arithmetic operations, expected more than 0: loss.target takes the logarithm", flop);
    value -= std::log(flop);
  }
  return (value - mean) / deviation;
}

torch::Tensor TargetTransform::targets(const data::Group& group, const std::vector<int64_t>& ids) const {
  const bool per_flop = kind == Kind::log_runtime_per_flop;
  if (per_flop && group.flops.empty())
    throw ModelError("{}: no flop counts, expected them for loss.target log_runtime_per_flop", group.name);
  auto result = torch::empty({std::ssize(ids)}, torch::kDouble);
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
  if (!(sums[0] > 0)) throw ModelError("target statistics: no candidate has a finite run time, expected at least one");
  TargetTransform result = transform_;
  result.mean = sums[1] / sums[0];
  const double deviation = std::sqrt(std::max(0.0, sums[2] / sums[0] - result.mean * result.mean));
  // What cancellation leaves of equal targets is no deviation.
  constexpr double kRounding = 1e-7;
  result.deviation = deviation > kRounding * std::abs(result.mean) ? deviation : 1.0;
  return result;
}

Tensor batch_loss(const LossSettings& settings, const Tensor& outputs, const LossTargets& targets) {
  check_outputs(outputs, targets.candidates);
  Tensor total;
  for (const auto& block : targets.blocks) {
    const auto own = block_loss(settings, block, outputs);
    total = total.defined() ? total + own : own;
  }
  // Otherwise a zero that backward passes through, whatever the outputs hold.
  return total.defined() ? total : outputs.narrow(0, 0, 0).sum();
}

}  // namespace foretime::models
