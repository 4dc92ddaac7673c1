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

/// Keeps the plans of all candidates of this rank's layout groups with shared states, if sampler.resident_plans says
/// so. A plan is made when its group is first drawn. Which groups have one depends only on data and settings, so that a
/// resumed run computes the same numbers. Plans that are drawn first are kept on the device while it has room; with a
/// GPU, others are kept in pinned host memory and copied for each draw. Plans on the device are never replaced: an
/// epoch draws each graph once, so replacing them would copy more.
class ResidentPlans {
 public:
  /// `options` names the device of the plans.
  ResidentPlans(const configs::Settings& settings, const sharding::ShardPlan& plan, int rank,
                const plans::PlanRequest& request, const models::PlanTensorOptions& options);

  /// Returns the plan of a batch from kept plans; nullopt if the group of some sample has none. `samples` must outlive
  /// the result.
  std::optional<models::ResidentBatch> resident_batch(const std::vector<Sample>& samples, const GroupStore& store);

 private:
  /// Returns the plan of the sample's group, made at the first call; null if the group has none.
  std::shared_ptr<const models::ResidentPlan> plan_of(const Sample& sample, const LoadedGroup& loaded);
  std::shared_ptr<const models::ResidentPlan> make(const LoadedGroup& loaded, int64_t drawn);

  configs::SamplerSettings settings_;
  plans::PlanRequest request_;
  models::PlanTensorOptions options_;
  double expected_draws_per_group_ = 0;  // draws of one group that are expected in the run
  int64_t bytes_of_a_group_ = 0, bytes_on_device_ = 0;
  // key: dataset entry; null: the group has no plan
  std::map<int64_t, std::shared_ptr<const models::ResidentPlan>> known_;
};

}  // namespace foretime::worker
