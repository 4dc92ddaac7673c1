#pragma once

#include <vector>

#include "models/gpu/arena.h"
#include "models/losses/losses.h"

/// batch_loss of targets that are made for one call.
namespace foretime::models {

inline torch::Tensor batch_loss(const configs::LossSettings& settings, const torch::Tensor& outputs,
                                const torch::Tensor& targets, const std::vector<int64_t>& group_ptr,
                                const std::vector<double>& weights) {
  const auto known = targets.to(torch::kCPU, torch::kDouble).contiguous();
  const LossGroups groups{{known.data_ptr<double>(), static_cast<size_t>(known.numel())}, group_ptr, weights};
  gpu::Arena arena(outputs.device(), max_loss_target_bytes(groups));
  auto ready = loss_targets(settings, groups, outputs.dim() == 2, outputs.scalar_type(), arena);
  if (const auto upload = arena.upload()) upload->wait();
  return batch_loss(settings, outputs, ready);
}

/// The loss of one group.
inline torch::Tensor group_loss(const configs::LossSettings& settings, const torch::Tensor& scores,
                                const torch::Tensor& targets) {
  return batch_loss(settings, scores, targets, {0, scores.dim() > 0 ? scores.size(0) : 0}, {1.0});
}

}  // namespace foretime::models
