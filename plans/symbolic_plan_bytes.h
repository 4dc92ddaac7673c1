#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/graphs/group.h"
#include "data/graphs/pruning.h"
#include "plans/symbolic_plan.h"

/// Symbolic plans as bytes, to be kept beside their group in a packed collection.
namespace foretime::plans {

/// Tells apart what symbolic plans are for: layers, relations, sharing, the hops that the group was pruned to
/// (pruning.h), and the way in which they are made and written. A symbolic plan is only read for the key that it was
/// written under.
uint64_t symbolic_plan_key(const PlanRequest& request, int64_t prune_hops = data::kNoPruning);

std::vector<std::byte> to_bytes(const SymbolicPlan& symbolic);

/// The symbolic plan of `group` that to_bytes wrote. Checks every count and index, so that no bytes can make a plan
/// read outside of its arrays. Throws DataError, starting with `origin`, for bytes of another group or request and for
/// damaged ones.
std::shared_ptr<const SymbolicPlan> symbolic_plan_from_bytes(std::span<const std::byte> bytes, const data::Group& group,
                                                             const PlanRequest& request, const std::string& origin);

}  // namespace foretime::plans
