#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <torch/types.h>

#include "configs/settings.h"
#include "models/device/arena.h"
#include "models/sparse/plan_tensors.h"

namespace foretime::models {

/// Groups of about one size, side by side: row g is a group, its candidates stand in it from the last place of its
/// ranking to the first, and places before them are padding. Numbers are of the type of the scores. What a loss does
/// not use is undefined.
struct LossBlock {
  int64_t groups = 0, longest = 0;
  CsrTensor places;            // [groups * longest, candidates] takes outputs to their places, padding takes zeros
  torch::Tensor list_offsets;  // [groups, longest] listmle: 0, and a large negative number where nothing stands
  torch::Tensor list_weights, list_log_weights;  // [groups, longest] listmle: of each place's term
  torch::Tensor ranks;             // [groups, longest] pairwise: equal where targets are; NaN: nothing stands there
  torch::Tensor pair_weights;      // [groups, 1, 1] pairwise: of each pair's penalty
  torch::Tensor targets;           // [groups, longest] residuals: 0 where nothing is known
  torch::Tensor residual_weights;  // [groups, longest] of each residual's loss
  torch::Tensor failed;            // [groups, longest] 1: it failed
  torch::Tensor failure_weights;   // [groups, longest] of each cross entropy
};

/// All that the loss of a batch needs beside its scores, ready on their device.
struct LossTargets {
  int64_t candidates = 0;  // of the batch
  std::vector<LossBlock> blocks;
};

/// What is known of a batch when it is put together.
struct LossGroups {
  std::span<const double> targets;         // [candidates] after the target's transform; infinite: it failed
  std::span<const int64_t> group_ptr;      // [groups + 1]
  std::span<const double> weights;         // [groups]; 0: padding, which takes no part
  std::span<const uint8_t> left_out = {};  // [candidates] not 0: takes no part; empty: all do
};

/// Room that `loss_targets` takes in an arena, at most.
int64_t room_of_loss_targets(const LossGroups& groups);

/// `dtype`: of the scores. `tells_failures`: whether outputs have a column of chances of failure. The caller starts the
/// arena's upload. Throws ModelError where group_ptr does not fit the rest.
LossTargets loss_targets(const configs::LossSettings& settings, const LossGroups& groups, bool tells_failures,
                         torch::Dtype dtype, device::Arena& arena);

}  // namespace foretime::models
