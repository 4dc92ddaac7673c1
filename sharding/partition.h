#pragma once

#include <cstdint>
#include <vector>

namespace foretime::sharding {

/// Deals lanes to ranks so that each band of batches is divided evenly, not only their sum. `costs`: [lanes][bands].
/// Returns each lane's rank. Lanes go by decreasing cost to the least loaded rank (LPT). Then lanes move and change
/// places while the squares of the ranks' loads, summed over bands, get less, until the largest loads of all bands
/// together are within a thousandth of the mean. A pure function: the work is bounded by a count of operations, not by
/// a clock.
std::vector<int> deal_lanes(const std::vector<std::vector<double>>& costs, int ranks);

}  // namespace foretime::sharding
