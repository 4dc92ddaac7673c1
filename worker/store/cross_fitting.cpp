#include "worker/store/cross_fitting.h"

#include "base/counter_random.h"
#include "models/losses/losses.h"

namespace foretime::worker {
namespace {}  // namespace

std::vector<uint8_t> folds_of(std::span<const uint64_t> configurations, int64_t members, uint64_t seed) {
  std::vector<uint8_t> folds;
  folds.reserve(configurations.size());
  for (const uint64_t hash : configurations) {
    const double drawn = random_unit({seed, random_stream::cross_fitting, hash});
    folds.push_back(static_cast<uint8_t>(drawn * static_cast<double>(members)));
  }
  return folds;
}

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

}  // namespace foretime::worker
