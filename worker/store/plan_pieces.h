#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <torch/types.h>

#include "models/sparse/plan_tensors.h"
#include "plans/plan_source.h"

namespace foretime::worker {

/// Plans the candidates of a group in pieces of about `max_states` states (one candidate at the least), for scoring
/// without gradients, and calls `visit` with each, in the order of the candidates.
void for_each_plan(const data::Group& group, const std::shared_ptr<const plans::PlanSource>& source,
                   const std::vector<int64_t>& candidates, int64_t max_states, torch::Device device,
                   const std::function<void(const models::PlanTensors& plan)>& visit);

}  // namespace foretime::worker
