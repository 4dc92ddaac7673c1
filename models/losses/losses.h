#pragma once

#include <cstdint>
#include <vector>

#include <torch/types.h>

#include "configs/settings.h"
#include "data/graphs/group.h"
#include "inference/bundle/targets.h"
#include "models/losses/loss_targets.h"

namespace foretime::models {

/// Converts run times to the targets that a model is trained to predict (inference::Targets), and back.
struct TargetTransform : inference::Targets {
  /// Returns the transform that the settings ask for, with mean 0 and deviation 1.
  static TargetTransform from(const configs::LossSettings& settings);

  /// Returns the target of `runtime` (in the unit of its group); infinite if `runtime` is. `flop`, a number of
  /// operations, is used for log_runtime_per_flop only. Throws ModelError for the logarithm of a number not above 0.
  double to_target(double runtime, double flop) const;

  /// Returns the targets of the candidates `ids` of a group, [ids] float64. Throws ModelError, naming the group, as
  /// to_target does, and if the group lacks the flop counts that log_runtime_per_flop needs.
  torch::Tensor targets(const data::Group& group, const std::vector<int64_t>& ids) const;
};

/// Computes the mean and deviation of the targets over training candidates of all ranks: each rank adds its groups,
/// sums() is summed over ranks in place, and every rank calls fit().
class TargetStatistics {
 public:
  explicit TargetStatistics(const TargetTransform& transform) : transform_(transform) {}
  /// Adds the targets of a group's candidates `ids` but failed ones. Throws ModelError as TargetTransform::targets.
  void add(const data::Group& group, const std::vector<int64_t>& ids);
  /// Returns count, sum and sum of squares, [3] float64 on the CPU. The caller may reduce it in place.
  torch::Tensor sums() { return sums_; }
  /// Returns the transform with the targets' mean and deviation; the deviation is 1 if all targets are equal up to
  /// rounding. Throws ModelError if no finite target was added.
  TargetTransform fit() const;

 private:
  TargetTransform transform_;
  torch::Tensor sums_ = torch::zeros({3}, torch::kDouble);  // see sums()
};

/// Returns the sum over groups of the group's weight times its loss, a scalar in the type of the scores; 0 without
/// groups that count. `outputs` are scores [candidates] (lower means faster, differentiable), or [candidates, 2] with
/// logits of the chance of failure in the second column: each group then adds failure_weight times the mean cross
/// entropy of these chances. `targets` were prepared with these settings (loss_targets.h); ranking losses use only
/// their order. A group with a single candidate has ranking loss 0, an empty group loss 0; both take part in backward.
/// A group of weight 0 is padding and adds nothing, even if its scores are NaN.
///
/// With s = -score, and candidates counted in ascending order of their targets, the loss of a group is:
///   listmle            sum over i of log(sum over j >= i of exp(s_j / T)) - s_i / T: the negative log-likelihood of
///                      the measured order under Plackett and Luce's model, summed over the list as published (Xia et
///                      al., ICML 2008), with T = temperature. Equal targets keep their order of position.
///   pairwise_hinge     mean over pairs (i faster than j) of max(0, margin - (score_j - score_i))
///   pairwise_logistic  mean over the same pairs of log(1 + exp((score_i - score_j) / T)) (RankNet)
///   mse, huber, l1     mean over candidates of that loss of score - target; huber is quadratic up to `delta`
/// A candidate with infinite run time failed: ranking losses place it behind all others, in no order among failures,
/// and the other losses leave it out of the mean. Candidates with equal targets make no pair; a group without pairs has
/// loss 0. The pairwise losses take O(candidates^2) memory. With mse_weight m and huber_weight h above 0 the result is
/// (loss + m * mse + h * huber) / (1 + m + h).
///
/// Throws BrokenInvariant if `outputs` has another shape, or other candidates than `targets`.
torch::Tensor batch_loss(const configs::LossSettings& settings, const torch::Tensor& outputs,
                         const LossTargets& targets);

}  // namespace foretime::models
