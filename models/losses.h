#pragma once

#include <cstdint>
#include <vector>

#include <torch/torch.h>

#include "configs/settings.h"

namespace foretime::models {

/// The loss of one group: `scores` [candidates] (lower means faster, differentiable), `targets` [candidates] float64
/// (run times after the target's transform; ranking losses use their order only). A scalar in the type of the scores.
/// A group with a single candidate has ranking loss 0.
torch::Tensor group_loss(const configs::LossSettings& settings, const torch::Tensor& scores, const torch::Tensor& targets);

/// Sum over groups of weights[g] * group_loss of the candidates group_ptr[g] … group_ptr[g + 1] - 1.
torch::Tensor batch_loss(const configs::LossSettings& settings, const torch::Tensor& scores, const torch::Tensor& targets,
                         const std::vector<int64_t>& group_ptr, const std::vector<double>& weights);

}  // namespace foretime::models
