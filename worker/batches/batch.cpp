#include "worker/batches/batch.h"

#include <ATen/Parallel.h>
#include <omp.h>

namespace foretime::worker {

namespace {

models::LossGroups groups_of(const Batch& batch) { return {batch.targets, batch.plan.group_ptr, batch.weights}; }

int64_t losses_made(const LossForm& form, const Batch& batch) {
  return batch.folds.empty() ? 1 : form.ensemble_members;
}

}  // namespace

std::vector<models::LossTargets> losses_of(const LossForm& form, const Batch& batch, torch::Dtype dtype,
                                           gpu::Arena& arena) {
  std::vector<models::LossTargets> losses;
  std::vector<uint8_t> excluded(batch.folds.size());
  for (int64_t member = 0; member < losses_made(form, batch); ++member) {
    for (size_t c = 0; c < excluded.size(); ++c) excluded[c] = batch.folds[c] == member;
    auto groups = groups_of(batch);
    groups.excluded = excluded;
    losses.push_back(models::loss_targets(form.settings, groups, form.predicts_failures, dtype, arena));
  }
  return losses;
}

int64_t max_loss_bytes(const LossForm& form, const Batch& batch) {
  return losses_made(form, batch) * models::max_loss_target_bytes(groups_of(batch));
}

torch::Tensor member_loss(const configs::LossSettings& settings, const torch::Tensor& scores, int64_t member,
                          const Batch& batch) {
  const int64_t at = batch.folds.empty() ? 0 : member;
  return models::batch_loss(settings, scores, batch.losses.at(at));
}

torch::Tensor mean_loss(const configs::LossSettings& settings, const std::vector<torch::Tensor>& scores,
                        const Batch& batch, int64_t parts) {
  torch::Tensor sum;
  for (size_t member = 0; member < scores.size(); ++member) {
    const auto own = member_loss(settings, scores[member], member, batch);
    sum = sum.defined() ? sum + own : own;
  }
  return sum / (std::ssize(scores) * parts);
}

Batch BatchLoader::prepare(int64_t number) const {
  const ProfileSpan span(profiler_, "plan");
  Batch batch;
  batch.number = number;
  batch.samples = sampler_.samples(number, rank_, store_);
  if (batch.samples.empty()) return batch;
  batch.plan.group_ptr = {0};
  int64_t most = -1;
  for (const auto& sample : batch.samples) {
    const auto& loaded = store_.get(sample.entry);
    const auto candidates = std::ssize(sample.candidates);
    const int64_t states = plans::plan_states(loaded.group, candidates, forward_.request());
    if (states > most) {
      most = states;
      batch.largest_group = loaded.group.name;
    }
    batch.weights.push_back(sample.weight);
    if (!loaded.folds.empty())
      for (const int64_t c : sample.candidates) batch.folds.push_back(loaded.folds[c]);
    const auto targets = targets_.targets(loaded.group, sample.candidates);
    batch.targets.insert(batch.targets.end(), targets.data_ptr<double>(), targets.data_ptr<double>() + candidates);
    batch.plan.group_ptr.push_back(batch.targets.size());
  }
  batch.candidates = batch.plan.group_ptr.back();
  place(batch);
  return batch;
}

void BatchLoader::place(Batch& batch) const {
  const auto& options = forward_.options();
  auto resident = forward_.resident_batch(batch, store_);
  std::optional<plans::MessagePlan> plan;
  std::optional<models::PlanConversion> conversion;
  if (!resident) plan = forward_.plan(batch, store_);
  if (plan) conversion.emplace(*plan, options);
  const int64_t plan_bytes = resident ? resident->max_bytes() : conversion ? conversion->max_bytes() : 0;
  gpu::Arena arena(options.device, plan_bytes + max_loss_bytes(loss_, batch));
  if (resident) batch.plan = resident->copy_into(arena);
  if (conversion) batch.plan = conversion->copy_into(arena);
  batch.losses = losses_of(loss_, batch, options.dtype, arena);
  batch.plan.upload = resident ? std::move(*resident).join(arena.upload()) : arena.upload();
}

Batch BatchLoader::get(int64_t number, bool more) {
  auto batch = next_number_ == number && next_.valid() ? next_.get() : prepare(number);
  if (more) {
    next_number_ = number + 1;
    next_ = std::async(std::launch::async, [this, number] {
      // A single thread: a separate team of threads would be created for each batch and take cores from the model's
      // team.
      at::internal::lazy_init_num_threads();
      omp_set_num_threads(1);
      return prepare(number + 1);
    });
  }
  return batch;
}

}  // namespace foretime::worker
