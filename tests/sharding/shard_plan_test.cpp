#include "sharding/shard_plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "base/counter_random.h"
#include "tests/sharding/datasets.h"

namespace foretime::sharding {
namespace {

DatasetIndex random_dataset(uint64_t seed, int64_t groups) {
  std::vector<std::pair<double, int64_t>> list;
  for (uint64_t i = 0; i < static_cast<uint64_t>(groups); ++i) {
    list.emplace_back(1 + std::exp(6 * random_unit({seed, i})),
                      1 + static_cast<int64_t>(random_bits({seed, i, 1}) % 9));
  }
  return dataset_of(list);
}

class Plans : public ::testing::TestWithParam<std::tuple<int, int, int, double>> {};  // groups, slots, ranks, sharing

TEST_P(Plans, DealsEverySampleOnceAndEverySlotToARank) {
  const auto [groups, slots, ranks, sharing] = GetParam();
  auto dataset = random_dataset(static_cast<uint64_t>(groups), groups);
  for (auto& entry : dataset.entries) entry.sharing = sharing;
  const auto plan = make_shard_plan(dataset, slots, ranks);
  std::map<int64_t, std::set<int64_t>> assigned;
  int64_t total = 0;
  for (const auto& slot : plan.slots) {
    int64_t samples = 0;
    for (const auto& share : slot.shares) {
      for (int64_t d = share.first; d < share.first + share.count; ++d)
        EXPECT_TRUE(assigned[share.entry].insert(d).second);
      samples += share.count;
    }
    EXPECT_EQ(samples, slot.samples);
    EXPECT_LE(slot.samples, plan.batches_per_epoch);
    total += samples;
  }
  int64_t expected = 0;
  for (const int64_t g : dataset.with_role(Role::train)) {
    EXPECT_EQ(static_cast<int64_t>(assigned[g].size()), dataset.entries[static_cast<size_t>(g)].samples);
    expected += dataset.entries[static_cast<size_t>(g)].samples;
  }
  EXPECT_EQ(total, expected);
  EXPECT_LE(plan.batches_per_epoch, (total + slots - 1) / slots);
  std::set<int64_t> seen;
  for (int rank = 0; rank < ranks; ++rank) {
    for (const int64_t slot : plan.slots_of(rank)) EXPECT_TRUE(seen.insert(slot).second);
  }
  EXPECT_EQ(static_cast<int>(seen.size()), slots);
  for (int64_t t = 0; t < plan.batches_per_epoch; ++t) EXPECT_GE(plan.live_slots(t), 1);
}
INSTANTIATE_TEST_SUITE_P(Sizes, Plans,
                         ::testing::Combine(::testing::Values(1, 2, 7, 60), ::testing::Values(1, 4, 16),
                                            ::testing::Values(1, 2, 3, 8), ::testing::Values(0.3, 1.0)));

TEST(ShardPlan, LanesDoNotDependOnTheNumberOfRanks) {
  const auto dataset = random_dataset(5, 20);
  EXPECT_EQ(make_shard_plan(dataset, 8, 1).slots, make_shard_plan(dataset, 8, 4).slots);
}

TEST(ShardPlan, GroupsThatShareStatesHaveSlotsOfTheirOwnAsFarAsTheyFillThem) {
  // Nine batches of eight slots: 41 samples fill four, 31 fill three, and what is left of both is in the last one.
  auto dataset = dataset_of({{10, 41}, {8, 31}}, 0);
  for (auto& entry : dataset.entries) entry.sharing = 0.3;
  const auto plan = make_shard_plan(dataset, 8, 2);
  int64_t mixed = 0;
  for (const auto& slot : plan.slots) {
    std::set<int64_t> entries;
    for (const auto& share : slot.shares) entries.insert(share.entry);
    mixed += entries.size() > 1;
  }
  EXPECT_EQ(mixed, 1);
  for (const auto& [piece, ranks] : plan.trainers()) EXPECT_LE(ranks.size(), 2u);
  EXPECT_EQ(make_shard_plan(dataset, 8, 5).slots, plan.slots);
}

TEST(ShardPlan, EveryRankReadsWhatItTrainsAndEvaluates) {
  const auto dataset = random_dataset(6, 9);
  const auto plan = make_shard_plan(dataset, 4, 2);
  for (int rank = 0; rank < 2; ++rank) {
    const auto entries = plan.entries_of(rank);
    const std::set<int64_t> read(entries.begin(), entries.end());
    for (const int64_t slot : plan.slots_of(rank)) {
      for (const auto& share : plan.slots[static_cast<size_t>(slot)].shares) EXPECT_TRUE(read.contains(share.entry));
    }
    for (int64_t e = 0; e < static_cast<int64_t>(plan.eval_parts.size()); ++e) {
      if (plan.eval_rank(e) == rank) {
        EXPECT_TRUE(read.contains(e));
      }
    }
  }
}

TEST(ShardPlan, BalancesEqualCounts) {
  // Two dear and two cheap groups on two ranks: each rank gets one of each.
  const auto plan = make_shard_plan(dataset_of({{100, 4}, {100, 4}, {1, 4}, {1, 4}}), 4, 2);
  EXPECT_NEAR(plan.imbalance, 0.0, 1e-12);
  // By hand: slots cost 400, 400, 4, 4.
  double most = 0;
  for (const auto& slot : plan.slots) most = std::max(most, slot.cost);
  EXPECT_DOUBLE_EQ(most, 400);
}

TEST(ShardPlan, ALargeDatasetIsBalancedWithinTwoPercent) {
  EXPECT_LT(make_shard_plan(random_dataset(11, 2000), 64, 8).imbalance, 0.02);
}

/// Two graphs of several parts among small ones.
DatasetIndex dataset_with_parts() {
  auto dataset = dataset_of({{40, 3}, {10, 3}, {30, 3}, {5, 3}}, 3);
  dataset.entries[0].parts = 4;
  dataset.entries[2].parts = 2;
  dataset.entries[5].parts = 3;  // evaluated only
  return dataset;
}

TEST(Parts, EachHasItsOwnSamples) {
  const auto plan = make_shard_plan(dataset_with_parts(), 4, 2);
  std::map<std::pair<int64_t, int64_t>, std::set<int64_t>> assigned;
  for (const auto& slot : plan.slots) {
    for (const auto& share : slot.shares) {
      for (int64_t d = share.first; d < share.first + share.count; ++d)
        EXPECT_TRUE(assigned[std::pair(share.entry, share.part)].insert(d).second);
    }
  }
  EXPECT_EQ(assigned.size(), 4 + 1 + 2 + 1u);
  for (const auto& [piece, samples] : assigned) EXPECT_EQ(samples, (std::set<int64_t>{0, 1, 2}));
}

TEST(Parts, LanesDoNotDependOnTheNumberOfRanks) {
  const auto dataset = dataset_with_parts();
  const auto one = make_shard_plan(dataset, 4, 1);
  for (const int ranks : {2, 3, 4, 9}) EXPECT_EQ(make_shard_plan(dataset, 4, ranks).slots, one.slots);
}

TEST(Parts, RanksHoldWhatTheyTrainAndEvaluateAndNoMore) {
  const auto dataset = dataset_with_parts();
  const auto plan = make_shard_plan(dataset, 4, 4);
  for (int64_t e = 0; e < static_cast<int64_t>(dataset.entries.size()); ++e) {
    const auto parts = dataset.entries[static_cast<size_t>(e)].parts;
    ASSERT_EQ(static_cast<int64_t>(plan.eval_parts[static_cast<size_t>(e)].size()), parts);
    std::set<int64_t> trained, held;
    for (int rank = 0; rank < 4; ++rank) {
      std::set<int64_t> own;
      for (const int64_t slot : plan.slots_of(rank)) {
        for (const auto& share : plan.slots[static_cast<size_t>(slot)].shares) {
          if (share.entry == e) own.insert(share.part);
        }
      }
      trained.insert(own.begin(), own.end());
      // Training graphs are evaluated where they are trained.
      for (int64_t part = 0; part < parts; ++part) {
        if (plan.eval_parts[static_cast<size_t>(e)][static_cast<size_t>(part)] != rank) continue;
        if (dataset.entries[static_cast<size_t>(e)].role == Role::train) {
          EXPECT_TRUE(own.contains(part));
        } else {
          own.insert(part);
        }
      }
      const auto entries = plan.entries_of(rank);
      EXPECT_EQ(std::ranges::binary_search(entries, e), !own.empty());
      held.insert(own.begin(), own.end());
    }
    EXPECT_EQ(static_cast<int64_t>(held.size()), parts);
  }
}

TEST(Parts, SegmentsAreDividedWithoutRest) {
  for (const int64_t segments : {5, 6, 44}) {
    int64_t next = 0;
    for (int64_t part = 0; part < 5; ++part) {
      const auto [first, end] = part_segments(segments, 5, part);
      EXPECT_EQ(first, next);
      EXPECT_GT(end, first);
      next = end;
    }
    EXPECT_EQ(next, segments);
  }
}

TEST(ShardPlan, AnEpochHasEachSampleOnceInAnOrderThatFollowsFromTheKey) {
  const auto plan = make_shard_plan(dataset_with_parts(), 4, 2);
  const auto order_of = [&](uint64_t key) {
    std::vector<PlannedSample> order;
    for (size_t slot = 0; slot < plan.slots.size(); ++slot) {
      for (int64_t t = 0; t < plan.slots[slot].samples; ++t)
        order.push_back(plan.sample_at(static_cast<int64_t>(slot), t, key));
    }
    return order;
  };
  const auto order = order_of(1);
  std::set<std::tuple<int64_t, int64_t, int64_t>> seen;
  for (const auto& sample : order)
    EXPECT_TRUE(seen.insert(std::tuple(sample.entry, sample.part, sample.sample)).second);
  EXPECT_EQ(seen.size(), 3 * (4 + 1 + 2 + 1u));
  EXPECT_EQ(order_of(1), order);
  EXPECT_NE(order_of(2), order);
}

TEST(DatasetIndex, SurvivesTheWayBetweenRanks) {
  auto dataset = random_dataset(3, 4);
  dataset.entries[0].header.fingerprint = 0xfedcba9876543210ULL;
  dataset.entries[0].header.file = "a/b \"c\".npz";
  const auto copy = parse_dataset_index(serialize(dataset));
  EXPECT_EQ(serialize(copy), serialize(dataset));
  EXPECT_EQ(copy.fingerprint(), dataset.fingerprint());
  EXPECT_EQ(copy.entries[0].header.file, dataset.entries[0].header.file);
  auto changed = dataset;
  changed.entries[1].header.fingerprint ^= 1;
  EXPECT_NE(changed.fingerprint(), dataset.fingerprint());
  changed = dataset;
  changed.entries[1].parts = 3;
  EXPECT_EQ(parse_dataset_index(serialize(changed)).entries[1].parts, 3);
  EXPECT_NE(changed.fingerprint(), dataset.fingerprint());
}

TEST(DatasetIndex, TestGroupsAreNoPartOfTheTrainingsFingerprint) {
  auto dataset = random_dataset(3, 4);
  dataset.entries[2].role = Role::test;
  auto other = dataset;
  other.entries[2].header.fingerprint ^= 1;
  EXPECT_NE(other.fingerprint(), dataset.fingerprint());
  EXPECT_EQ(other.training_fingerprint(), dataset.training_fingerprint());
  for (const auto role : {Role::train, Role::valid}) {
    dataset.entries[1].role = role;
    other = dataset;
    other.entries[1].header.fingerprint ^= 1;
    EXPECT_NE(other.training_fingerprint(), dataset.training_fingerprint());
  }
}

}  // namespace
}  // namespace foretime::sharding
