#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "configs/settings.h"
#include "models/sparse/resident_plan.h"
#include "sharding/shard_plan.h"
#include "worker/batches/sampler.h"
#include "worker/store/group_store.h"

namespace foretime::worker {

/// Keeps plans of all candidates of this rank's layout groups with shared states, as sampler.resident_plans says. A
/// plan is made when a batch first has its group. Data and settings alone decide which groups have a plan, so that a
/// resumed run computes the same numbers. On a GPU, the plans that are made first are kept on the device, up to
/// sampler.resident_bytes, and later ones in pinned host memory. Plans on the device are never replaced: an epoch
/// samples each graph about once, so replacing them would copy more.
class ResidentPlans {
 public:
  /// `options` names the device of the plans.
  ResidentPlans(const configs::Settings& settings, const sharding::ShardPlan& plan, int rank,
                const plans::PlanRequest& request, const models::PlanTensorOptions& options);

  /// Returns the plan of a batch from kept plans; nullopt if a group has none. `samples` must outlive the result.
  std::optional<models::ResidentBatch> resident_batch(const std::vector<Sample>& samples, const GroupStore& store);

 private:
  /// Returns the plan of the sample's group, made at the first call; null if the group has none.
  std::shared_ptr<const models::ResidentPlan> plan_of(const Sample& sample, const LoadedGroup& loaded);
  /// Makes a group's plan; null if it is too large or saves no work. `drawn` is the number of candidates of a sample.
  std::shared_ptr<const models::ResidentPlan> make(const LoadedGroup& loaded, int64_t drawn);

  configs::SamplerSettings settings_;
  plans::PlanRequest request_;
  models::PlanTensorOptions options_;
  double expected_draws_per_group_ = 0;  // expected number of samples of one group in the run
  int64_t bytes_of_a_group_ = 0;         // limit of the size of one plan
  int64_t bytes_on_device_ = 0;          // size of all plans that are kept on a GPU
  // key: dataset entry; null: the group has no plan
  std::map<int64_t, std::shared_ptr<const models::ResidentPlan>> known_;
};

}  // namespace foretime::worker
