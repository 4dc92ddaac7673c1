#include "sharding/plan_report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/counter_random.h"
#include "sharding/partition.h"

namespace foretime::sharding {
namespace {

Catalogue catalogue_of(const std::vector<double>& costs, int64_t draws) {
  Catalogue catalogue;
  for (const double cost : costs) {
    CatalogueEntry entry;
    entry.header.name = fmt::format("g{}", catalogue.entries.size());
    entry.header.nodes = entry.header.candidates = 100;
    entry.draw_cost = cost;
    entry.draws = draws;
    catalogue.entries.push_back(entry);
  }
  return catalogue;
}

std::vector<double> random_costs(uint64_t seed, int64_t count, double spread) {
  std::vector<double> costs;
  for (uint64_t i = 0; i < static_cast<uint64_t>(count); ++i)
    costs.push_back(std::exp(spread * random_unit({seed, i})));
  return costs;
}

PlanReport report_of(const Catalogue& catalogue, int64_t lanes, int ranks, double slack = 0) {
  return report_plan(catalogue, make_shard_plan(catalogue, lanes, ranks, slack), configs::Settings(), ranks);
}

TEST(PlanReport, IsWhatFollowsByHand) {
  // Three lanes on two ranks: batches {8, 4, 4} and {-, 2, 1}. The first is even only with lane 0 alone on its rank,
  // and then the second is 0 against 3.
  const auto report = report_of(catalogue_of({8, 4, 4, 2, 1}, 1), 3, 2);
  EXPECT_EQ(report.draws, 5);
  EXPECT_EQ(report.batches, 2);
  EXPECT_EQ(report.pieces, 5);
  EXPECT_DOUBLE_EQ(report.padding, 1.0 / 6);
  ASSERT_EQ(report.steps.size(), 2u);
  EXPECT_DOUBLE_EQ(report.steps[0].total, 16);
  EXPECT_DOUBLE_EQ(report.steps[0].heaviest_rank, 8);
  EXPECT_DOUBLE_EQ(report.steps[0].heaviest_draw, 8);
  EXPECT_DOUBLE_EQ(report.steps[1].total, 3);
  EXPECT_DOUBLE_EQ(report.steps[1].heaviest_rank, 3);
  EXPECT_DOUBLE_EQ(report.step_imbalance, 11 / 9.5 - 1);
  EXPECT_DOUBLE_EQ(report.worst_step, 3 / 1.5 - 1);
  EXPECT_DOUBLE_EQ(report.step_bound, 10 / 9.5 - 1);
  EXPECT_DOUBLE_EQ(report.heaviest_draw_share, 8 / 4.75);
  EXPECT_DOUBLE_EQ(report.copies, 1);
}

TEST(PlanReport, StepsAddUpToTheEpoch) {
  const auto catalogue = catalogue_of(random_costs(4, 30, 3), 5);
  double expected = 0;
  for (const auto& entry : catalogue.entries) expected += entry.draw_cost * 5;
  for (const int ranks : {1, 3, 8}) {
    const auto report = report_of(catalogue, 16, ranks);
    double total = 0;
    for (const auto& step : report.steps) {
      total += step.total;
      EXPECT_GE(step.heaviest_rank * ranks, step.total * (1 - 1e-12));
      EXPECT_GE(step.heaviest_rank, step.heaviest_draw * (1 - 1e-12));
    }
    EXPECT_NEAR(total, expected, 1e-9 * expected);
    EXPECT_GE(report.step_imbalance, report.imbalance - 1e-12);  // nobody waits less than the busiest rank works
    EXPECT_GE(report.step_imbalance, report.step_bound - 1e-12);
  }
}

TEST(PlanReport, EveryBatchIsBalancedWhereDrawsAreLighterThanAShare) {
  for (const int64_t draws : {1, 7, 50}) {
    for (const int ranks : {2, 8, 32}) {
      const auto report = report_of(catalogue_of(random_costs(9, 400, 2), draws), 8 * ranks, ranks);
      EXPECT_LT(report.imbalance, 0.02) << draws << " draws, " << ranks << " ranks";
      EXPECT_LT(report.step_imbalance, 0.03) << draws << " draws, " << ranks << " ranks";
    }
  }
}

TEST(PlanReport, OneLaneARankIsAsGoodAsItsHeaviestDraws) {
  for (const int ranks : {2, 8, 32}) {
    const auto report = report_of(catalogue_of(random_costs(3, 320, 3), 1), ranks, ranks);
    EXPECT_NEAR(report.step_imbalance, report.step_bound, 1e-12);
    EXPECT_LT(report.step_imbalance, 0.2);  // sorted draws: a batch's are alike
  }
}

TEST(PlanReport, SlackMixesBatchesAndCostsNoMoreThanItSays) {
  const auto catalogue = catalogue_of(random_costs(3, 320, 3), 1);
  const auto strict = report_of(catalogue, 8, 8), loose = report_of(catalogue, 8, 8, 0.1);
  EXPECT_LT(loose.bands, strict.bands);
  EXPECT_GT(loose.step_imbalance, strict.step_imbalance);
  EXPECT_LE(1 + loose.step_imbalance, 1.1 * (1 + strict.step_imbalance));
  EXPECT_EQ(report_of(catalogue, 8, 8, 1e9).bands, 1);
}

TEST(PlanReport, CountsRanksWithoutWork) {
  const auto report = report_of(catalogue_of({3, 2, 1}, 2), 4, 6);
  EXPECT_EQ(report.idle_ranks, 2);
  EXPECT_EQ(report.lanes, 4);
}

TEST(DealLanes, BalancesEveryBandAndNotOnlyTheSum) {
  // By the sum, {10, 0} and {0, 10} are alike; each rank must get one of each kind.
  const std::vector<std::vector<double>> costs = {{10, 0}, {10, 0}, {0, 10}, {0, 10}};
  const auto owner = deal_lanes(costs, 2);
  EXPECT_NE(owner[0], owner[1]);
  EXPECT_NE(owner[2], owner[3]);
}

TEST(DealLanes, IsNoWorseThanTheBestOfAllDealsByMuch) {
  // The slow twin tries all 3^7 deals.
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<std::vector<double>> costs;
    for (uint64_t l = 0; l < 7; ++l) costs.push_back({random_unit({seed, l, 0}), random_unit({seed, l, 1})});
    const auto slowest = [&](const std::vector<int>& owner) {
      double sum = 0;
      for (size_t band = 0; band < 2; ++band) {
        double load[3] = {};
        for (size_t l = 0; l < 7; ++l) load[owner[l]] += costs[l][band];
        sum += *std::max_element(std::begin(load), std::end(load));
      }
      return sum;
    };
    double best = 1e9;
    for (int code = 0; code < 2187; ++code) {
      std::vector<int> owner;
      for (int rest = code, l = 0; l < 7; ++l, rest /= 3) owner.push_back(rest % 3);
      best = std::min(best, slowest(owner));
    }
    EXPECT_LT(slowest(deal_lanes(costs, 3)), 1.25 * best) << "seed " << seed;
  }
}

}  // namespace
}  // namespace foretime::sharding
