#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sharding/scaling_model.h"
#include "sharding/shard_plan.h"

/// What `foretime plan` prints.
namespace foretime::sharding {

/// The plan for one number of ranks.
struct PlanView {
  int64_t groups_per_batch = 0;
  int64_t candidates_per_group = 0;
  sharding::ShardPlan plan;
  sharding::PlanReport report;
  std::optional<sharding::Prediction> prediction;
};

/// Training groups, parts, draws; one row for each number of ranks; what the columns mean; remarks.
std::string plan_text(const sharding::DatasetIndex& dataset, const std::vector<PlanView>& views);
/// The `count` training groups with the costliest draws.
std::string heaviest_text(const sharding::DatasetIndex& dataset, size_t count);
/// Which ranks train on and evaluate each part, one row a part.
std::string assignments_text(const sharding::DatasetIndex& dataset, const PlanView& view);
std::string prediction_text(const std::vector<PlanView>& views);
/// All of it; `assignments` where asked for.
std::string plan_json(const sharding::DatasetIndex& dataset, const std::vector<PlanView>& views, size_t heaviest,
                      bool assignments);

}  // namespace foretime::sharding
