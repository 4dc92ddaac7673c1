#include "worker/batches/batch.h"

#include <ATen/Parallel.h>
#include <omp.h>

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

Batch BatchLoader::prepare(int64_t number) const {
  const ProfileSpan span(profiler_, "plan");
  Batch batch;
  batch.number = number;
  batch.samples = sampler_.samples(number, rank_, store_);
  if (batch.samples.empty()) return batch;
  batch.plan = forward_.plan(batch, store_);
  std::vector<torch::Tensor> targets;
  int64_t most = -1;
  for (const auto& sample : batch.samples) {
    const auto& loaded = store_.get(sample.entry);
    const int64_t states =
        plans::plan_states(loaded.group, static_cast<int64_t>(sample.candidates.size()), forward_.request());
    if (states > most) {
      most = states;
      batch.largest_group = loaded.group.name;
    }
    batch.weights.push_back(sample.weight);
    if (!loaded.folds.empty()) {
      for (const int64_t c : sample.candidates) batch.folds.push_back(loaded.folds[static_cast<size_t>(c)]);
    }
    targets.push_back(targets_.targets(loaded.group, sample.candidates));
  }
  batch.targets = torch::cat(targets).to(forward_.device());
  batch.candidates = batch.targets.numel();
  return batch;
}

Batch BatchLoader::get(int64_t number, bool more) {
  auto batch = next_number_ == number && next_.valid() ? next_.get() : prepare(number);
  if (more) {
    next_number_ = number + 1;
    next_ = std::async(std::launch::async, [this, number] {
      // Alone: a team of threads of its own would be made anew for each batch, and would take cores from the model's.
      at::internal::lazy_init_num_threads();
      omp_set_num_threads(1);
      return prepare(number + 1);
    });
  }
  return batch;
}

}  // namespace foretime::worker
