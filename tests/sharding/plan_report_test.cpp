#include "sharding/plan_report.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "base/counter_random.h"
#include "configs/load.h"
#include "tests/sharding/datasets.h"

namespace foretime::sharding {
namespace {

DatasetIndex dataset_of_costs(const std::vector<double>& costs, int64_t samples) {
  std::vector<std::pair<double, int64_t>> list;
  for (const double cost : costs) list.emplace_back(cost, samples);
  return dataset_of(list, 0);
}

std::vector<double> random_costs(uint64_t seed, int64_t count, double spread) {
  std::vector<double> costs;
  for (uint64_t i = 0; i < static_cast<uint64_t>(count); ++i)
    costs.push_back(std::exp(spread * random_unit({seed, i})));
  return costs;
}

PlanReport report_of(const DatasetIndex& dataset, int64_t slots, int ranks, double slack = 0) {
  return report_plan(dataset, make_shard_plan(dataset, slots, ranks, slack), configs::Settings(), ranks);
}

TEST(PlanReport, IsWhatFollowsByHand) {
  // Three slots on two ranks: batches {8, 4, 4} and {-, 2, 1}. The first is even only with slot 0 alone on its rank,
  // and then the second is 0 against 3.
  const auto report = report_of(dataset_of_costs({8, 4, 4, 2, 1}, 1), 3, 2);
  EXPECT_EQ(report.samples, 5);
  EXPECT_EQ(report.batches, 2);
  EXPECT_EQ(report.pieces, 5);
  EXPECT_DOUBLE_EQ(report.padding, 1.0 / 6);
  ASSERT_EQ(report.steps.size(), 2u);
  EXPECT_DOUBLE_EQ(report.steps[0].total, 16);
  EXPECT_DOUBLE_EQ(report.steps[0].heaviest_rank, 8);
  EXPECT_DOUBLE_EQ(report.steps[0].heaviest_sample, 8);
  EXPECT_DOUBLE_EQ(report.steps[1].total, 3);
  EXPECT_DOUBLE_EQ(report.steps[1].heaviest_rank, 3);
  EXPECT_DOUBLE_EQ(report.step_imbalance, 11 / 9.5 - 1);
  EXPECT_DOUBLE_EQ(report.worst_step, 3 / 1.5 - 1);
  EXPECT_DOUBLE_EQ(report.step_bound, 10 / 9.5 - 1);
  EXPECT_DOUBLE_EQ(report.heaviest_sample_share, 8 / 4.75);
  EXPECT_DOUBLE_EQ(report.copies, 1);
}

TEST(PlanReport, SamplesOfOneGraphOnOneRankShareTheirStates) {
  // Four slots, two graphs with two samples in each batch; two samples on a rank cost 2^0.5 of one, by hand.
  auto dataset = dataset_of_costs({10, 8}, 6);
  for (auto& entry : dataset.entries) entry.sharing = 0.5;
  const auto report = report_of(dataset, 4, 2);
  ASSERT_EQ(report.steps.size(), 3u);
  for (const auto& step : report.steps) {
    EXPECT_DOUBLE_EQ(step.alone, 18 * std::sqrt(2));
    EXPECT_DOUBLE_EQ(step.total, step.alone) << "each graph is on one rank";
    EXPECT_DOUBLE_EQ(step.heaviest_rank, 10 * std::sqrt(2));
  }
  EXPECT_EQ(report.copies, 1);
  EXPECT_EQ(report.repeated, 0);
  EXPECT_DOUBLE_EQ(report.imbalance, 10.0 / 9 - 1);
  // On four ranks a slot each is quickest, and both graphs are computed twice.
  const auto four = report_of(dataset, 4, 4);
  for (const auto& step : four.steps) EXPECT_DOUBLE_EQ(step.heaviest_rank, 10);
  EXPECT_EQ(four.copies, 2);
  EXPECT_DOUBLE_EQ(four.repeated, std::sqrt(2) - 1);
  // What one rank would do is what efficiency compares with.
}

TEST(PlanReport, StepsAddUpToTheEpoch) {
  const auto dataset = dataset_of_costs(random_costs(4, 30, 3), 5);
  double expected = 0;
  for (const auto& entry : dataset.entries) expected += entry.sample_cost * 5;
  for (const int ranks : {1, 3, 8}) {
    const auto report = report_of(dataset, 16, ranks);
    double total = 0;
    for (const auto& step : report.steps) {
      total += step.total;
      EXPECT_GE(step.heaviest_rank * ranks, step.total * (1 - 1e-12));
      EXPECT_GE(step.heaviest_rank, step.heaviest_sample * (1 - 1e-12));
    }
    EXPECT_NEAR(total, expected, 1e-9 * expected);
    EXPECT_GE(report.step_imbalance, report.imbalance - 1e-12);  // nobody waits less than the busiest rank works
    EXPECT_GE(report.step_imbalance, report.step_bound - 1e-12);
  }
}

TEST(PlanReport, EveryBatchIsBalancedWhereSamplesAreLighterThanAShare) {
  for (const int64_t samples : {1, 7, 50}) {
    for (const int ranks : {2, 8, 32}) {
      const auto report = report_of(dataset_of_costs(random_costs(9, 400, 2), samples), 8 * ranks, ranks);
      EXPECT_LT(report.imbalance, 0.02) << samples << " draws, " << ranks << " ranks";
      EXPECT_LT(report.step_imbalance, 0.03) << samples << " draws, " << ranks << " ranks";
    }
  }
}

TEST(PlanReport, OneSlotARankIsAsGoodAsItsHeaviestSamples) {
  for (const int ranks : {2, 8, 32}) {
    const auto report = report_of(dataset_of_costs(random_costs(3, 320, 3), 1), ranks, ranks);
    EXPECT_NEAR(report.step_imbalance, report.step_bound, 1e-12);
    EXPECT_LT(report.step_imbalance, 0.2);  // sorted samples: a batch's are alike
  }
}

TEST(PlanReport, SlackMixesBatchesAndCostsNoMoreThanItSays) {
  const auto dataset = dataset_of_costs(random_costs(3, 320, 3), 1);
  const auto strict = report_of(dataset, 8, 8), loose = report_of(dataset, 8, 8, 0.1);
  EXPECT_LT(loose.buckets, strict.buckets);
  EXPECT_GT(loose.step_imbalance, strict.step_imbalance);
  EXPECT_LE(1 + loose.step_imbalance, 1.1 * (1 + strict.step_imbalance));
  EXPECT_EQ(report_of(dataset, 8, 8, 1e9).buckets, 1);
}

TEST(PlanReport, CountsRanksWithoutWork) {
  const auto report = report_of(dataset_of_costs({3, 2, 1}, 2), 4, 6);
  EXPECT_EQ(report.idle_ranks, 2);
  EXPECT_EQ(report.slots, 4);
}

}  // namespace
}  // namespace foretime::sharding
