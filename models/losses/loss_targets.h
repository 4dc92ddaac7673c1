#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <torch/types.h>

#include "configs/settings.h"
#include "models/gpu/arena.h"
#include "models/sparse/plan_tensors.h"

namespace foretime::models {

/// Holds groups of similar size, padded to one length. Row g is one group: first padding, then its candidates from the
/// slowest to the fastest. Numbers have the type of the scores. Tensors that the loss does not use are undefined.
struct LossBlock {
  int64_t groups = 0, longest = 0;  // number of rows; length of a row: candidates of the largest group
  CsrTensor places;            // [groups * longest, candidates] gathers outputs into their places, zeros into padding
  torch::Tensor list_offsets;  // [groups, longest] listmle: 0, or a large negative number for padding
  // [groups, longest] listmle: weight of each place's term (0: padding, failures), and the logarithm of the weight
  torch::Tensor list_weights, list_log_weights;
  torch::Tensor ranks;             // [groups, longest] pairwise: equal for equal targets; NaN: padding
  torch::Tensor pair_weights;      // [groups, 1, 1] pairwise: weight of each pair's penalty
  torch::Tensor targets;           // [groups, longest] residuals: 0 for padding and failures
  torch::Tensor residual_weights;  // [groups, longest] weight of each residual's loss
  torch::Tensor failed;            // [groups, longest] 1: the candidate failed; 0: it ran, or padding
  torch::Tensor failure_weights;   // [groups, longest] weight of each cross entropy of `failed`; 0 for padding
};

/// Holds all inputs of a batch's loss but the scores, on the device of the scores.
struct LossTargets {
  int64_t candidates = 0;         // candidates of the whole batch
  std::vector<LossBlock> blocks;  // all groups that count; empty if none does
};

/// Holds the labels of a batch's groups.
struct LossGroups {
  std::span<const double> targets;         // [candidates] after the target's transform; infinite: failed
  std::span<const int64_t> group_ptr;      // [groups + 1]
  std::span<const double> weights;         // [groups]; 0: padding, which does not count
  std::span<const uint8_t> excluded = {};  // [candidates] 1: does not count; empty: all count
};

/// Returns an upper bound of the bytes that loss_targets() takes in an arena for these groups.
int64_t max_loss_target_bytes(const LossGroups& groups);

/// Prepares the loss of a batch in an arena, whose upload the caller starts. `dtype` is the type of the scores;
/// `predicts_failures` says whether outputs have a column of chances of failure. Throws BrokenInvariant if group_ptr
/// does not ascend from 0 to the number of targets, with one range for each weight.
LossTargets loss_targets(const configs::LossSettings& settings, const LossGroups& groups, bool predicts_failures,
                         torch::Dtype dtype, gpu::Arena& arena);

}  // namespace foretime::models
