#include "sharding/shard_plan.h"

#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/counter_random.h"

namespace foretime::sharding {
namespace {

Catalogue catalogue_of(const std::vector<std::pair<double, int64_t>>& cost_and_draws, int64_t valid = 2) {
  Catalogue catalogue;
  for (const auto& [cost, draws] : cost_and_draws) {
    CatalogueEntry entry;
    entry.header.name = fmt::format("g{}", catalogue.entries.size());
    entry.draw_cost = cost;
    entry.draws = draws;
    catalogue.entries.push_back(entry);
  }
  for (int64_t i = 0; i < valid; ++i) {
    CatalogueEntry entry;
    entry.header.name = fmt::format("v{}", i);
    entry.role = Role::valid;
    entry.draw_cost = 10;
    catalogue.entries.push_back(entry);
  }
  return catalogue;
}

Catalogue random_catalogue(uint64_t seed, int64_t groups) {
  std::vector<std::pair<double, int64_t>> list;
  for (uint64_t i = 0; i < static_cast<uint64_t>(groups); ++i) {
    list.emplace_back(1 + std::exp(6 * random_unit({seed, i})),
                      1 + static_cast<int64_t>(random_bits({seed, i, 1}) % 9));
  }
  return catalogue_of(list);
}

class Plans : public ::testing::TestWithParam<std::tuple<int, int, int>> {};  // groups, lanes, ranks

TEST_P(Plans, DealsEveryDrawOnceAndEveryLaneToARank) {
  const auto [groups, lanes, ranks] = GetParam();
  const auto catalogue = random_catalogue(static_cast<uint64_t>(groups), groups);
  const auto plan = make_shard_plan(catalogue, lanes, ranks);
  std::map<int64_t, std::set<int64_t>> dealt;
  int64_t total = 0;
  for (const auto& lane : plan.lanes) {
    int64_t draws = 0;
    for (const auto& share : lane.shares) {
      for (int64_t d = share.first; d < share.first + share.count; ++d)
        EXPECT_TRUE(dealt[share.entry].insert(d).second);
      draws += share.count;
    }
    EXPECT_EQ(draws, lane.draws);
    EXPECT_LE(lane.draws, plan.batches_per_epoch);
    total += draws;
  }
  int64_t expected = 0;
  for (const int64_t g : catalogue.with_role(Role::train)) {
    EXPECT_EQ(static_cast<int64_t>(dealt[g].size()), catalogue.entries[static_cast<size_t>(g)].draws);
    expected += catalogue.entries[static_cast<size_t>(g)].draws;
  }
  EXPECT_EQ(total, expected);
  EXPECT_LE(plan.batches_per_epoch, (total + lanes - 1) / lanes);
  std::set<int64_t> seen;
  for (int rank = 0; rank < ranks; ++rank) {
    for (const int64_t lane : plan.lanes_of(rank)) EXPECT_TRUE(seen.insert(lane).second);
  }
  EXPECT_EQ(static_cast<int>(seen.size()), lanes);
  for (int64_t t = 0; t < plan.batches_per_epoch; ++t) EXPECT_GE(plan.live_lanes(t), 1);
}
INSTANTIATE_TEST_SUITE_P(Sizes, Plans,
                         ::testing::Combine(::testing::Values(1, 2, 7, 60), ::testing::Values(1, 4, 16),
                                            ::testing::Values(1, 2, 3, 8)));

TEST(ShardPlan, LanesDoNotDependOnTheNumberOfRanks) {
  const auto catalogue = random_catalogue(5, 20);
  EXPECT_EQ(make_shard_plan(catalogue, 8, 1).lanes, make_shard_plan(catalogue, 8, 4).lanes);
}

TEST(ShardPlan, EveryRankReadsWhatItTrainsAndEvaluates) {
  const auto catalogue = random_catalogue(6, 9);
  const auto plan = make_shard_plan(catalogue, 4, 2);
  for (int rank = 0; rank < 2; ++rank) {
    const auto entries = plan.entries_of(rank);
    const std::set<int64_t> read(entries.begin(), entries.end());
    for (const int64_t lane : plan.lanes_of(rank)) {
      for (const auto& share : plan.lanes[static_cast<size_t>(lane)].shares) EXPECT_TRUE(read.contains(share.entry));
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
  const auto plan = make_shard_plan(catalogue_of({{100, 4}, {100, 4}, {1, 4}, {1, 4}}), 4, 2);
  EXPECT_NEAR(plan.imbalance, 0.0, 1e-12);
  // By hand: lanes cost 400, 400, 4, 4.
  double most = 0;
  for (const auto& lane : plan.lanes) most = std::max(most, lane.cost);
  EXPECT_DOUBLE_EQ(most, 400);
}

TEST(ShardPlan, ALargeCatalogueIsBalancedWithinTwoPercent) {
  EXPECT_LT(make_shard_plan(random_catalogue(11, 2000), 64, 8).imbalance, 0.02);
}

/// Two graphs of several parts among small ones.
Catalogue catalogue_with_parts() {
  auto catalogue = catalogue_of({{40, 3}, {10, 3}, {30, 3}, {5, 3}}, 3);
  catalogue.entries[0].parts = 4;
  catalogue.entries[2].parts = 2;
  catalogue.entries[5].parts = 3;  // evaluated only
  return catalogue;
}

TEST(Parts, EachHasItsOwnDraws) {
  const auto plan = make_shard_plan(catalogue_with_parts(), 4, 2);
  std::map<std::pair<int64_t, int64_t>, std::set<int64_t>> dealt;
  for (const auto& lane : plan.lanes) {
    for (const auto& share : lane.shares) {
      for (int64_t d = share.first; d < share.first + share.count; ++d)
        EXPECT_TRUE(dealt[std::pair(share.entry, share.part)].insert(d).second);
    }
  }
  EXPECT_EQ(dealt.size(), 4 + 1 + 2 + 1u);
  for (const auto& [piece, draws] : dealt) EXPECT_EQ(draws, (std::set<int64_t>{0, 1, 2}));
}

TEST(Parts, LanesDoNotDependOnTheNumberOfRanks) {
  const auto catalogue = catalogue_with_parts();
  const auto one = make_shard_plan(catalogue, 4, 1);
  for (const int ranks : {2, 3, 4, 9}) EXPECT_EQ(make_shard_plan(catalogue, 4, ranks).lanes, one.lanes);
}

TEST(Parts, RanksHoldWhatTheyTrainAndEvaluateAndNoMore) {
  const auto catalogue = catalogue_with_parts();
  const auto plan = make_shard_plan(catalogue, 4, 4);
  for (int64_t e = 0; e < static_cast<int64_t>(catalogue.entries.size()); ++e) {
    const auto parts = catalogue.entries[static_cast<size_t>(e)].parts;
    ASSERT_EQ(static_cast<int64_t>(plan.eval_parts[static_cast<size_t>(e)].size()), parts);
    std::set<int64_t> trained, held;
    for (int rank = 0; rank < 4; ++rank) {
      std::set<int64_t> own;
      for (const int64_t lane : plan.lanes_of(rank)) {
        for (const auto& share : plan.lanes[static_cast<size_t>(lane)].shares) {
          if (share.entry == e) own.insert(share.part);
        }
      }
      trained.insert(own.begin(), own.end());
      // Training graphs are evaluated where they are trained.
      for (int64_t part = 0; part < parts; ++part) {
        if (plan.eval_parts[static_cast<size_t>(e)][static_cast<size_t>(part)] != rank) continue;
        if (catalogue.entries[static_cast<size_t>(e)].role == Role::train)
          EXPECT_TRUE(own.contains(part));
        else
          own.insert(part);
      }
      const auto found = plan.parts_of(rank, e);
      EXPECT_EQ(std::set<int64_t>(found.begin(), found.end()), own);
      EXPECT_TRUE(std::is_sorted(found.begin(), found.end()));
      const auto entries = plan.entries_of(rank);
      EXPECT_EQ(std::binary_search(entries.begin(), entries.end(), e), !own.empty());
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

TEST(ShardPlan, AnEpochHasEachDrawOnceInAnOrderThatFollowsFromTheKey) {
  const auto plan = make_shard_plan(catalogue_with_parts(), 4, 2);
  const auto order_of = [&](uint64_t key) {
    std::vector<PlannedDraw> order;
    for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
      for (int64_t t = 0; t < plan.lanes[lane].draws; ++t)
        order.push_back(plan.draw_at(static_cast<int64_t>(lane), t, key));
    }
    return order;
  };
  const auto order = order_of(1);
  std::set<std::tuple<int64_t, int64_t, int64_t>> seen;
  for (const auto& draw : order) EXPECT_TRUE(seen.insert(std::tuple(draw.entry, draw.part, draw.draw)).second);
  EXPECT_EQ(seen.size(), 3 * (4 + 1 + 2 + 1u));
  EXPECT_EQ(order_of(1), order);
  EXPECT_NE(order_of(2), order);
}

TEST(Catalogue, SurvivesTheWayBetweenRanks) {
  auto catalogue = random_catalogue(3, 4);
  catalogue.entries[0].header.fingerprint = 0xfedcba9876543210ULL;
  catalogue.entries[0].header.file = "a/b \"c\".npz";
  const auto copy = parse_catalogue(serialize(catalogue));
  EXPECT_EQ(serialize(copy), serialize(catalogue));
  EXPECT_EQ(copy.fingerprint(), catalogue.fingerprint());
  EXPECT_EQ(copy.entries[0].header.file, catalogue.entries[0].header.file);
  auto changed = catalogue;
  changed.entries[1].header.fingerprint ^= 1;
  EXPECT_NE(changed.fingerprint(), catalogue.fingerprint());
  changed = catalogue;
  changed.entries[1].parts = 3;
  EXPECT_EQ(parse_catalogue(serialize(changed)).entries[1].parts, 3);
  EXPECT_NE(changed.fingerprint(), catalogue.fingerprint());
}

}  // namespace
}  // namespace foretime::sharding
