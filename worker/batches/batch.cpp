#include "worker/batches/batch.h"

#include "models/losses/losses.h"

namespace foretime::worker {

torch::Tensor member_loss(const configs::LossSettings& settings, const torch::Tensor& scores, int64_t member,
                          const Batch& batch) {
  const auto& group_ptr = batch.plan.group_ptr;
  if (batch.folds.empty()) return models::batch_loss(settings, scores, batch.targets, group_ptr, batch.weights);
  std::vector<int64_t> kept, kept_ptr = {0};
  for (size_t g = 0; g + 1 < group_ptr.size(); ++g) {
    for (int64_t c = group_ptr[g]; c < group_ptr[g + 1]; ++c) {
      if (batch.folds[static_cast<size_t>(c)] != member) kept.push_back(c);
    }
    kept_ptr.push_back(static_cast<int64_t>(kept.size()));
  }
  const auto ids = torch::tensor(kept, torch::kLong).to(scores.device());
  return models::batch_loss(settings, scores.index_select(0, ids), batch.targets.index_select(0, ids), kept_ptr,
                            batch.weights);
}

torch::Tensor mean_loss(const configs::LossSettings& settings, const std::vector<torch::Tensor>& scores,
                        const Batch& batch, int64_t parts) {
  torch::Tensor sum;
  for (size_t member = 0; member < scores.size(); ++member) {
    const auto own = member_loss(settings, scores[member], static_cast<int64_t>(member), batch);
    sum = sum.defined() ? sum + own : own;
  }
  return sum / static_cast<double>(static_cast<int64_t>(scores.size()) * parts);
}

}  // namespace foretime::worker
