#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "data/graphs/group.h"
#include "plans/message_plan.h"
#include "plans/symbolic_plan.h"

namespace foretime::plans {

/// Some candidates of a layout group whose states are shared. The arrays are the group's.
struct SharedEntry {
  data::GraphBlock graphs;
  data::LayoutCandidates layout;
  std::vector<int64_t> candidates;
  std::shared_ptr<const SymbolicPlan> symbolic;
  data::Collection collection = data::Collection::none;
};

/// Inputs, levels, layers and readout of the plan that shares states among all entries, of whatever groups; group_ptr
/// is left to the caller. Entries of one symbolic plan count as one set of candidates. Throws DataError where a level
/// would have more than 2^31 - 1 states.
void fill_shared_plan(const std::vector<SharedEntry>& entries, const PlanRequest& request, MessagePlan& plan);

}  // namespace foretime::plans
