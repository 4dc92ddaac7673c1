#pragma once

#include <cstdint>
#include <vector>

namespace foretime::sharding {

/// Partitions batch slots among ranks so that each cost bucket is divided evenly, not only their sum. `costs`:
/// [slots][buckets]. Returns each slot's rank. Slots go by decreasing cost to the least loaded rank (LPT). Then slots
/// move and change places while the squares of the ranks' loads, summed over buckets, get less, until the largest loads
/// of all buckets together are within a thousandth of the mean. A pure function: the work is bounded by a count of
/// operations, not by a clock.
std::vector<int> partition_slots(const std::vector<std::vector<double>>& costs, int ranks);

}  // namespace foretime::sharding
