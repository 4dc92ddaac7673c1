#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <vector>

/// How batch slots are divided among ranks.
namespace foretime::sharding {

/// A group with several samples in each batch of a bucket, which share states: n of them on one rank cost that rank
/// cost n^exponent, and cost n below one.
struct SharedGroup {
  size_t bucket = 0;
  double cost = 0;
  double exponent = 1;
  double of(double samples) const;
};

/// What a slot costs its rank in an epoch.
struct SlotWork {
  struct Samples {
    size_t group;  // of Work::groups
    double count;  // in a batch, on average
  };
  std::vector<double> costs{};    // [buckets] of samples that share nothing with other slots
  std::vector<Samples> shared{};  // at most one of each group
};

struct Work {
  std::vector<SharedGroup> groups{};
  std::vector<SlotWork> slots{};
};

/// Partitions slots among ranks so that the sum over buckets of the largest load is small. Returns each slot's rank.
///
/// Slots go by decreasing cost to the least loaded rank (LPT), then move and change places while the squares of the
/// ranks' loads, summed over buckets, get less, until the largest loads of all buckets together are within a thousandth
/// of the mean. Where samples share states, this holds as if they did not, and slots go by group as well: for the least
/// load T that this finds for, ranks are filled with slots of one group up to T, and what is left of groups shares
/// ranks, so that a group is cut only where its own cost is above T. From both beginnings slots change places while the
/// 16th powers of the loads get less, and of the four partitions the best counts. A pure function: the work is bounded
/// by a count of operations, not by a clock.
std::vector<int> partition_slots(const Work& work, int ranks);

/// 0 … count - 1 by decreasing weight; equal weights keep their order.
template <class Weight>
std::vector<size_t> heaviest_first(size_t count, Weight&& weight) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), weight);
  return order;
}

}  // namespace foretime::sharding
