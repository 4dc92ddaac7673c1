#pragma once

#include <cstdint>
#include <vector>

#include <torch/types.h>

#include "configs/settings.h"
#include "data/graphs/group.h"
#include "inference/bundle/targets.h"
#include "models/losses/loss_targets.h"

namespace foretime::models {

/// Converts run times to the targets that a model is trained to predict, and back.
struct TargetTransform : inference::Targets {
  /// Returns the transform that the settings ask for, with mean 0 and deviation 1.
  static TargetTransform from(const configs::LossSettings& settings);

  /// Converts `runtime`, in the unit of its group; `flop` is used only if the target is per flop. Throws ModelError if
  /// a logarithm has no value: a run time or flop count that is not positive.
  double to_target(double runtime, double flop) const;

  /// Returns the targets of a group's candidates `ids`: [ids] float64. Throws ModelError, naming the group, as
  /// to_target does, and if required flop counts are unknown.
  torch::Tensor targets(const data::Group& group, const std::vector<int64_t>& ids) const;
};

/// Computes the mean and deviation of the targets over training candidates. Ranks sum `sums()` before `fit`.
class TargetStatistics {
 public:
  explicit TargetStatistics(const TargetTransform& transform) : transform_(transform) {}
  /// Adds the targets of a group's candidates `ids`.
  void add(const data::Group& group, const std::vector<int64_t>& ids);
  /// Returns count, sum and sum of squares, [3] float64 on the CPU. The caller may reduce it in place.
  torch::Tensor sums() { return sums_; }
  /// Returns the transform with mean and deviation; the deviation is 1 if all targets are equal. Throws ModelError if
  /// there are no targets.
  TargetTransform fit() const;

 private:
  TargetTransform transform_;
  torch::Tensor sums_ = torch::zeros({3}, torch::kDouble);
};

/// Returns the sum over groups of the group's weight times its loss, a scalar in the type of the scores. `outputs` are
/// scores [candidates] (lower means faster, differentiable), or [candidates, 2] with logits of the chance of failure in
/// the second column: each group then adds failure_weight times the mean cross entropy of these chances. `targets` were
/// prepared with these settings (loss_targets.h); ranking losses use only their order. A group with a single candidate
/// has ranking loss 0, an empty group loss 0; both take part in backward. A group of weight 0 is padding and adds
/// nothing, even if its scores are NaN.
///
/// With s = -score, and candidates counted in ascending order of their targets, the loss of a group is:
///   listmle            sum over i of log(sum over j >= i of exp(s_j / T)) - s_i / T: the negative log-likelihood of
///                      the measured order under Plackett and Luce's model, summed over the list as published (Xia et
///                      al., ICML 2008), with T = temperature. Equal targets keep their order of position.
///   pairwise_hinge     mean over pairs (i faster than j) of max(0, margin - (score_j - score_i))
///   pairwise_logistic  mean over the same pairs of log(1 + exp((score_i - score_j) / T)) (RankNet)
///   mse, huber, l1     mean over candidates of that loss of score - target; huber is quadratic up to `delta`
/// A candidate with infinite run time failed: ranking losses place it behind all others, in no order among failures,
/// and the other losses leave it out. Candidates with equal targets make no pair; a group without pairs has loss 0. The
/// pairwise losses take O(candidates^2) memory. With mse_weight m and huber_weight h above 0 the result is (loss + m *
/// mse + h * huber) / (1 + m + h).
///
/// Throws ModelError for an unknown loss and for tensors that are not vectors of one length.
torch::Tensor batch_loss(const configs::LossSettings& settings, const torch::Tensor& outputs,
                         const LossTargets& targets);

}  // namespace foretime::models
