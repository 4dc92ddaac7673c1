#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <torch/torch.h>

#include "configs/settings.h"
#include "worker/step/batch_loader.h"

namespace foretime::worker {

/// trainer.member_folds: a model's members (model.members) share out the configurations of each training group, and
/// each learns from those of the others. A candidate's score by the member that has not seen it says how well such
/// scores order candidates that nobody measured: score levels (worker/score_levels.h) are found from these.

/// The fold of each configuration, given by its hash: the member that does not learn from it. Candidates of one
/// configuration are in one fold, whatever rank asks.
std::vector<uint8_t> folds_of(std::span<const uint64_t> configurations, int64_t members, uint64_t seed);

/// The loss of a batch by one member's scores: over all candidates, or with folds over those that it learns from.
torch::Tensor member_loss(const configs::LossSettings& settings, const torch::Tensor& scores, int64_t member,
                          const Batch& batch);

}  // namespace foretime::worker
