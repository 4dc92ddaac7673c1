#include "worker/batches/resident_plans.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "models/gpu/launch.h"

namespace foretime::worker {
namespace {

using configs::ResidentPlans::always;
using configs::ResidentPlans::never;

constexpr double kFewestDraws = 4;  // fewer draws of a group do not pay for its plan

/// States of all levels together.
int64_t states_of(const plans::MessagePlan& plan) {
  int64_t states = 0;
  for (const auto& level : plan.levels) states += level->states();
  return states;
}

/// Returns the factor by which keeping plans may increase the work of a draw. The model limits the speed on a CPU; on a
/// GPU it is the host, which makes plans.
double most_work(torch::Device device) { return gpu::uses_gpu_kernels(device) ? 8.0 : 1.2; }

}  // namespace

ResidentPlans::ResidentPlans(const configs::Settings& settings, const sharding::ShardPlan& plan, int rank,
                             const plans::PlanRequest& request, const models::PlanTensorOptions& options)
    : settings_(settings.sampler), request_(request), options_(options) {
  std::set<int64_t> groups, own;
  for (const auto& [place, ranks] : plan.trainers()) {
    groups.insert(place.first);
    if (ranks.contains(rank)) own.insert(place.first);
  }
  if (own.empty() || settings.data.format != configs::DataFormat::layout || request.sharing == plans::Sharing::none ||
      settings_.max_segment_nodes > 0) {
    settings_.resident_plans = never;
    return;
  }
  const auto on_host = gpu::uses_gpu_kernels(options.device) ? settings_.resident_host_bytes : 0;
  bytes_of_a_group_ = (settings_.resident_bytes + on_host) / std::ssize(own);
  const double batches = settings.trainer.steps * settings.optimizer.accumulation;
  expected_draws_per_group_ = batches * settings_.groups_per_batch / groups.size();
}

std::optional<models::ResidentBatch> ResidentPlans::resident_batch(const std::vector<Sample>& samples,
                                                                   const GroupStore& store) {
  if (settings_.resident_plans == never) return std::nullopt;
  std::vector<models::ResidentBatch::Entry> entries;
  for (const auto& sample : samples) {
    auto plan = plan_of(sample, store.get(sample.entry));
    if (!plan) return std::nullopt;
    entries.push_back({std::move(plan), sample.candidates});
  }
  return models::ResidentBatch(std::move(entries), options_);
}

std::shared_ptr<const models::ResidentPlan> ResidentPlans::plan_of(const Sample& sample, const LoadedGroup& loaded) {
  const auto known = known_.find(sample.entry);
  if (known != known_.end()) return known->second;
  return known_[sample.entry] = make(loaded, sample.candidates.size());
}

std::shared_ptr<const models::ResidentPlan> ResidentPlans::make(const LoadedGroup& loaded, int64_t drawn) {
  const auto plan_of_first = [&](int64_t count) {
    std::vector<int64_t> first(std::min(count, loaded.group.candidates));
    std::iota(first.begin(), first.end(), 0);
    plans::PlanBuilder builder(request_);
    builder.add(loaded.group, first, loaded.plan_source);
    return std::move(builder).build();
  };
  std::optional<plans::MessagePlan> all;
  if (settings_.resident_plans != always) {
    if (expected_draws_per_group_ < kFewestDraws) return nullptr;
    // More candidates never have fewer states: if some candidates have too many states, all of them have.
    constexpr int64_t kSome = 16;
    const double most = most_work(options_.device) * states_of(plan_of_first(drawn));
    if (states_of(plan_of_first(kSome * drawn)) > most) return nullptr;
    all = plan_of_first(loaded.group.candidates);
    if (states_of(*all) > most) return nullptr;
  }
  if (!all) all = plan_of_first(loaded.group.candidates);
  using models::ResidentPlan;
  const bool device_has_own_memory = gpu::uses_gpu_kernels(options_.device);
  auto plan = std::make_shared<ResidentPlan>(
      *all, options_, device_has_own_memory ? ResidentPlan::Home::host : ResidentPlan::Home::device);
  if (plan->bytes() > bytes_of_a_group_) return nullptr;
  if (!device_has_own_memory || bytes_on_device_ + plan->bytes() > settings_.resident_bytes) return plan;
  bytes_on_device_ += plan->bytes();
  return std::make_shared<ResidentPlan>(*all, options_);
}

}  // namespace foretime::worker
