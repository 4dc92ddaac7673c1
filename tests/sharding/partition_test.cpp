#include "sharding/partition.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include <gtest/gtest.h>

#include "base/counter_random.h"

namespace foretime::sharding {
namespace {

/// Loads worked out plainly: [ranks][buckets].
std::vector<std::vector<double>> plain_loads(const Work& work, const std::vector<int>& owner, int ranks) {
  std::vector<std::vector<double>> loads(static_cast<size_t>(ranks),
                                         std::vector<double>(work.slots.front().costs.size()));
  for (int rank = 0; rank < ranks; ++rank) {
    auto& load = loads[static_cast<size_t>(rank)];
    std::map<size_t, double> samples;
    for (size_t slot = 0; slot < work.slots.size(); ++slot) {
      if (owner[slot] != rank) continue;
      for (size_t b = 0; b < load.size(); ++b) load[b] += work.slots[slot].costs[b];
      for (const auto& [group, count] : work.slots[slot].shared) samples[group] += count;
    }
    for (const auto& [group, count] : samples) {
      const auto& shared = work.groups[group];
      load[shared.bucket] += count <= 1 ? shared.cost * count : shared.cost * std::pow(count, shared.exponent);
    }
  }
  return loads;
}

/// Sum over buckets of the largest load.
double slowest(const Work& work, const std::vector<int>& owner, int ranks) {
  const auto loads = plain_loads(work, owner, ranks);
  double sum = 0;
  for (size_t b = 0; b < loads.front().size(); ++b)
    sum += std::ranges::max(loads, {}, [&](const auto& load) { return load[b]; })[b];
  return sum;
}

/// The reference implementation: tries all divisions.
double best_of_all(const Work& work, int ranks) {
  int64_t codes = 1;
  for (size_t slot = 0; slot < work.slots.size(); ++slot) codes *= ranks;
  double best = 1e300;
  for (int64_t code = 0; code < codes; ++code) {
    std::vector<int> owner;
    for (int64_t rest = code; owner.size() < work.slots.size(); rest /= ranks)
      owner.push_back(static_cast<int>(rest % ranks));
    best = std::min(best, slowest(work, owner, ranks));
  }
  return best;
}

Work work_of_costs(const std::vector<std::vector<double>>& costs) {
  Work work;
  for (const auto& slot : costs) work.slots.push_back({.costs = slot});
  return work;
}

/// Slots of some groups, one or two a slot, and costs of their own.
Work random_work(uint64_t seed, uint64_t slots, uint64_t groups, size_t buckets) {
  Work work;
  for (uint64_t g = 0; g < groups; ++g) {
    work.groups.push_back(
        {.bucket = g % buckets, .cost = 1 + 9 * random_unit({seed, 1, g}), .exponent = random_unit({seed, 2, g})});
  }
  for (uint64_t l = 0; l < slots; ++l) {
    auto& slot = work.slots.emplace_back();
    for (size_t b = 0; b < buckets; ++b) slot.costs.push_back(3 * random_unit({seed, 3, l, b}));
    const uint64_t first = random_bits({seed, 4, l}) % groups, second = random_bits({seed, 5, l}) % groups;
    slot.shared.push_back({first, first == second ? 1.0 : 0.7});
    if (first != second) slot.shared.push_back({second, 0.3});
  }
  return work;
}

TEST(Partition, BalancesEveryBucketAndNotOnlyTheSum) {
  // By the sum, {10, 0} and {0, 10} are alike; each rank must get one of each kind.
  const auto owner = partition_slots(work_of_costs({{10, 0}, {10, 0}, {0, 10}, {0, 10}}), 2);
  EXPECT_NE(owner[0], owner[1]);
  EXPECT_NE(owner[2], owner[3]);
}

TEST(Partition, IsNoWorseThanTheBestOfAllByMuch) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<std::vector<double>> costs;
    for (uint64_t l = 0; l < 7; ++l) costs.push_back({random_unit({seed, l, 0}), random_unit({seed, l, 1})});
    const auto work = work_of_costs(costs);
    EXPECT_LT(slowest(work, partition_slots(work, 3), 3), 1.25 * best_of_all(work, 3)) << "seed " << seed;
  }
}

TEST(Partition, OfSlotsThatShareStatesIsNoWorseThanTheBestOfAllByMuch) {
  double sum = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const auto work = random_work(seed, 7, 1 + seed % 4, 1 + seed % 2);
    const double ratio = slowest(work, partition_slots(work, 3), 3) / best_of_all(work, 3);
    EXPECT_LT(ratio, 1.25) << "seed " << seed;
    sum += ratio;
  }
  EXPECT_LT(sum / 40, 1.04);
}

TEST(Partition, KeepsSamplesOfOneGroupTogetherUntilThatTakesTooLong) {
  // Groups of eight slots each whose samples share nearly all: a rank each. With sixteen ranks they are cut.
  Work work;
  for (size_t g = 0; g < 4; ++g) work.groups.push_back({.bucket = 0, .cost = 10, .exponent = 0.25});
  for (size_t l = 0; l < 32; ++l) work.slots.push_back({.costs = {0}, .shared = {{l % 4, 1.0}}});
  const auto four = partition_slots(work, 4);
  for (size_t l = 4; l < 32; ++l) EXPECT_EQ(four[l], four[l % 4]);
  EXPECT_NEAR(slowest(work, partition_slots(work, 16), 16), 10 * std::pow(2, 0.25), 1e-9);
}

TEST(Partition, OfThousandsOfSlotsIsQuickAndNearTheBound) {
  // 84 groups on 512 ranks, as the published graphs with eight groups a rank: about 49 slots of each.
  Work work;
  for (uint64_t g = 0; g < 84; ++g)
    work.groups.push_back({.bucket = 0, .cost = std::exp(random_unit({g})), .exponent = 0.3});
  for (size_t l = 0; l < 4096; ++l) work.slots.push_back({.costs = {0}, .shared = {{l * 84 / 4096, 1.0}}});
  // No division is quicker than the best number of slots of each group: at most that many ranks for T.
  double low = 0, high = 1e9;
  for (int i = 0; i < 100; ++i) {
    const double most = (low + high) / 2;
    double ranks = 0;
    for (size_t g = 0; g < 84; ++g) {
      const double slots = std::floor(std::pow(most / work.groups[g].cost, 1 / 0.3));
      ranks += slots < 1 ? 1e9 : 4096.0 / 84 / slots;
    }
    (ranks <= 512 ? high : low) = most;
  }
  EXPECT_LT(slowest(work, partition_slots(work, 512), 512), 1.15 * high);
}

}  // namespace
}  // namespace foretime::sharding
