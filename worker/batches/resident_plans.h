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

/// The plans of all candidates of this rank's groups, made when a group is first drawn, where sampler.resident_plans
/// wants them. Which groups have one depends on the data and the settings alone, so that a run that is resumed computes
/// as one that was not. The first that are drawn lie on the device, as many as it has room for; with a GPU, others lie
/// in pinned memory of the host and go up for each draw, which changes no number. An epoch draws each graph once, so to
/// replace those of the device by later ones would bring up more, not less. Layout graphs whose states are shared.
class ResidentPlans {
 public:
  /// `options`: of the plans, which says where they lie.
  ResidentPlans(const configs::Settings& settings, const sharding::ShardPlan& plan, int rank,
                const plans::PlanRequest& request, const models::PlanTensorOptions& options);

  /// The draw of a batch, where the groups of all samples have such plans. `samples` must outlive it.
  std::optional<models::ResidentDraw> draw(const std::vector<Sample>& samples, const GroupStore& store);

 private:
  /// Null: the group has none.
  std::shared_ptr<const models::ResidentPlan> plan_of(const Sample& sample, const LoadedGroup& loaded);
  std::shared_ptr<const models::ResidentPlan> make(const LoadedGroup& loaded, int64_t drawn);

  configs::SamplerSettings settings_;
  plans::PlanRequest request_;
  models::PlanTensorOptions options_;
  double draws_of_a_group_ = 0;  // expected in the run
  int64_t bytes_of_a_group_ = 0, bytes_on_device_ = 0;
  std::map<int64_t, std::shared_ptr<const models::ResidentPlan>> known_;  // by entry
};

}  // namespace foretime::worker
