#pragma once

#include <cstdint>
#include <vector>

#include <torch/types.h>

#include "configs/settings.h"
#include "data/graphs/group.h"
#include "inference/bundle/targets.h"
#include "models/losses/loss_targets.h"

namespace foretime::models {

/// Between run times and what a model is trained to predict, both ways.
struct TargetTransform : inference::Targets {
  /// As the settings say, with mean 0 and deviation 1.
  static TargetTransform from(const configs::LossSettings& settings);

  /// `runtime` in the unit of its group, `flop` ignored unless the target is per flop. Throws ModelError where a
  /// logarithm has no value: a run time or a flop count that is not positive.
  double to_target(double runtime, double flop) const;

  /// The targets of a group's candidates `ids`: [ids] float64. Throws ModelError, naming the group, as to_target does,
  /// and where flop counts are needed and unknown.
  torch::Tensor targets(const data::Group& group, const std::vector<int64_t>& ids) const;
};

/// Mean and deviation of the targets over training candidates. Ranks sum `sums()` before `fit`.
class TargetStatistics {
 public:
  explicit TargetStatistics(const TargetTransform& transform) : transform_(transform) {}
  void add(const data::Group& group, const std::vector<int64_t>& ids);
  /// [3] float64 on the CPU: count, sum, sum of squares. The caller may reduce it in place.
  torch::Tensor sums() { return sums_; }
  /// `transform` with mean and deviation; the deviation is 1 where all targets agree. Throws ModelError without any
  /// targets.
  TargetTransform fit() const;

 private:
  TargetTransform transform_;
  torch::Tensor sums_ = torch::zeros({3}, torch::kDouble);
};

/// The loss of one group: `scores` [candidates] (lower means faster, differentiable), `targets` [candidates] float64
/// (run times after the target's transform; ranking losses use their order only). A scalar in the type of the scores.
/// A group with a single candidate has ranking loss 0, an empty group loss 0; both still take part in backward.
///
/// With s = -score, and candidates counted in ascending order of their targets:
///   listmle            sum over i of log(sum over j >= i of exp(s_j / T)) - s_i / T: the negative log-likelihood of
///   the measured
///                      order under Plackett and Luce's model, summed over the list as published (Xia et al., ICML
///                      2008), with T = temperature. Equal targets keep their order of position.
///   pairwise_hinge     mean over pairs (i faster than j) of max(0, margin - (score_j - score_i))
///   pairwise_logistic  mean over the same pairs of log(1 + exp((score_i - score_j) / T)) (RankNet)
///   mse, huber, l1     mean over candidates of the residual score - target under that loss; huber is quadratic up to
///   `delta`
/// A candidate of infinite run time failed: every ranking loss wants it behind all that ran, in no order among such,
/// and the other losses leave it out. Candidates with equal targets make no pair; a group without pairs has loss 0. The
/// pairwise losses take O(candidates^2) memory. With mse_weight m and huber_weight h above 0 the result is (loss + m *
/// mse + h * huber) / (1 + m + h).
///
/// Throws ModelError for an unknown loss and for tensors that are not vectors of one length.
torch::Tensor group_loss(const configs::LossSettings& settings, const torch::Tensor& scores,
                         const torch::Tensor& targets);

/// Sum over groups of weights[g] * group_loss of the candidates group_ptr[g] … group_ptr[g + 1] - 1. A group of weight
/// 0 is padding: it adds nothing, whatever its scores are (NaN too). `outputs` are the scores, or
/// [candidates, 2], the second column logits of the chance of failure: each group then adds failure_weight times the
/// mean of their cross entropy with what failed.
torch::Tensor batch_loss(const configs::LossSettings& settings, const torch::Tensor& outputs,
                         const torch::Tensor& targets, const std::vector<int64_t>& group_ptr,
                         const std::vector<double>& weights);
/// The same, with what is known beforehand on the device already (loss_targets.h), made with these settings.
torch::Tensor batch_loss(const configs::LossSettings& settings, const torch::Tensor& outputs,
                         const LossTargets& targets);

}  // namespace foretime::models
