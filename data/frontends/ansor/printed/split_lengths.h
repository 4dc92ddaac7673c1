#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "data/frontends/ansor/records/record.h"

/// Lengths of loops that a recorded schedule tells of the DAG that it was made for.
namespace foretime::data {

/// Lengths of loops by stage and axis, spatial axes first, as splits in records name them.
using SplitLengths = std::map<std::pair<int32_t, int32_t>, int64_t>;

/// Adds the lengths that the splits of a schedule name of axes of the DAG's own stages. `spatial`: how many spatial
/// axes each stage has, in their order. Throws DataError where a length differs from one that is known.
void add_split_lengths(const ScheduleSteps& schedule, const std::vector<int32_t>& axes,
                       const std::vector<int32_t>& spatial, SplitLengths& lengths);

}  // namespace foretime::data
