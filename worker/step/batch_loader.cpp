#include "worker/step/batch_loader.h"

#include <ATen/Parallel.h>
#include <omp.h>

namespace foretime::worker {

Batch BatchLoader::prepare(int64_t number) const {
  const ProfileSpan span(profiler_, "plan");
  const auto entries = sampler_.draw(number, rank_, store_);
  Batch batch;
  if (entries.empty()) return batch;
  plans::PlanBuilder builder(request_);
  const bool head_only = segments_ != nullptr && number >= head_from_;
  std::vector<torch::Tensor> targets;
  std::vector<int64_t> group_ptr = {0};
  int64_t most = -1;
  for (const auto& entry : entries) {
    const auto& loaded = store_.get(entry.entry);
    if (segments_ == nullptr) {
      builder.add(loaded.group, entry.candidates, loaded.plan_source);
    } else {
      batch.graphs.push_back(segments_->choose(entry, loaded));
      if (!head_only) segments_->add(batch.graphs.back(), loaded, builder);
    }
    const int64_t states = plans::plan_states(loaded.group, static_cast<int64_t>(entry.candidates.size()), request_);
    if (states > most) {
      most = states;
      batch.largest_group = loaded.group.name;
    }
    batch.weights.push_back(entry.weight);
    if (!loaded.folds.empty()) {
      for (const int64_t c : entry.candidates) batch.folds.push_back(loaded.folds[static_cast<size_t>(c)]);
    }
    targets.push_back(targets_.targets(loaded.group, entry.candidates));
    group_ptr.push_back(group_ptr.back() + static_cast<int64_t>(entry.candidates.size()));
  }
  if (head_only) {
    batch.plan.group_ptr = std::move(group_ptr);
  } else {
    batch.plan = models::to_tensors(std::move(builder).build(), {.device = device_});
  }
  batch.targets = torch::cat(targets).to(device_);
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
