#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <vector>

/// Divides batch slots among ranks.
namespace foretime::sharding {

/// Describes a group whose samples in one batch share states, in one cost bucket: n > 1 samples in each batch on one
/// rank cost cost * n^exponent, and n <= 1 samples cost cost * n.
struct SharedGroup {
  size_t bucket = 0;    // cost bucket
  double cost = 0;      // cost of one sample in each batch of the bucket
  double exponent = 1;  // 0 … 1
  /// Returns the cost of `samples` samples in each batch on one rank.
  double of(double samples) const;
};

/// Holds the costs of a slot in an epoch for the rank that has it.
struct SlotWork {
  struct Samples {
    size_t group;  // index in Work::groups
    double count;  // average number of the slot's samples in a batch
  };
  std::vector<double> costs{};    // [buckets] costs of samples that share no states with other slots
  std::vector<Samples> shared{};  // no two entries for one group
};

/// Holds the work of all slots.
struct Work {
  std::vector<SharedGroup> groups{};
  std::vector<SlotWork> slots{};
};

/// Partitions slots among ranks so that the sum over buckets of the largest load is small. Returns each slot's rank.
///
/// Slots are assigned by decreasing cost to the least loaded rank (LPT). They are then moved and swapped while the sum
/// over buckets of the ranks' squared loads decreases, until the largest loads are together within a thousandth of the
/// mean. If samples share states, this is done as if they did not, and a second partition is made by group: for the
/// smallest load T that a search finds possible, ranks are filled with slots of one group up to T, and the remainders
/// of groups share ranks, so that a group is divided only if its own cost exceeds T. From both partitions slots are
/// swapped while the 16th powers of the loads decrease, and the best of the four partitions is returned. The result
/// depends only on the arguments: the work is limited by a count of operations, not by a clock.
std::vector<int> partition_slots(const Work& work, int ranks);

/// Returns the numbers 0 … count - 1 by decreasing weight(number); equal weights keep the order of their numbers.
template <class Weight>
std::vector<size_t> heaviest_first(size_t count, Weight&& weight) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), weight);
  return order;
}

}  // namespace foretime::sharding
