#include "metrics/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/check.h"
#include "base/kendall.h"
#include "metrics/metric_table.h"
#include "metrics/tie_thresholds.h"

namespace foretime::metrics {
namespace {

using Values = std::vector<double>;

struct LoopPairs {
  double right = 0, tied = 0, all = 0, concordant = 0, score_pairs = 0;
};

/// Every pair, one by one.
LoopPairs loop_pairs(const Values& scores, const Values& runtimes) {
  LoopPairs pairs;
  for (size_t i = 0; i < scores.size(); ++i) {
    for (size_t j = 0; j < scores.size(); ++j) {
      if (i < j && scores[i] != scores[j]) ++pairs.score_pairs;
      if (!(runtimes[i] < runtimes[j])) continue;
      ++pairs.all;
      if (scores[i] < scores[j]) ++pairs.right;
      if (scores[i] == scores[j]) ++pairs.tied;
      pairs.concordant += (scores[i] < scores[j]) - (scores[i] > scores[j]);
    }
  }
  return pairs;
}

double loop_slowdown(const Values& scores, const Values& runtimes, int64_t k) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] < scores[b]; });
  double chosen = INFINITY, best = INFINITY;
  for (size_t i = 0; i < order.size(); ++i) {
    best = std::min(best, runtimes[i]);
    if (static_cast<int64_t>(i) < k) chosen = std::min(chosen, runtimes[order[i]]);
  }
  return chosen / best - 1;
}

TEST(Metrics, EqualLoopTwinsOnDataWithTies) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 300; ++round) {
    const size_t n = 2 + random() % 60;
    const uint64_t score_values = 1 + random() % 40, runtime_values = 1 + random() % 40;
    Values scores(n), runtimes(n);
    for (auto& score : scores) score = static_cast<double>(random() % score_values) - 5.5;
    for (auto& runtime : runtimes) runtime = 1.0 + static_cast<double>(random() % runtime_values);
    const auto pairs = loop_pairs(scores, runtimes);
    if (pairs.all == 0) {
      EXPECT_TRUE(std::isnan(kendall_tau(scores, runtimes)));
      EXPECT_TRUE(std::isnan(ordered_pair_accuracy(scores, runtimes)));
      EXPECT_TRUE(std::isnan(pairwise_accuracy(scores, runtimes)));
    } else {
      const double tau = pairs.score_pairs == 0 ? 0 : pairs.concordant / std::sqrt(pairs.all * pairs.score_pairs);
      EXPECT_NEAR(kendall_tau(scores, runtimes), tau, 1e-12);
      EXPECT_DOUBLE_EQ(ordered_pair_accuracy(scores, runtimes), pairs.right / pairs.all);
      EXPECT_DOUBLE_EQ(pairwise_accuracy(scores, runtimes), (pairs.right + 0.5 * pairs.tied) / pairs.all);
    }
    for (const int64_t k : {1, 2, 5, 10, 100}) {
      EXPECT_DOUBLE_EQ(top_k_slowdown(scores, runtimes, k), loop_slowdown(scores, runtimes, k)) << "k = " << k;
      EXPECT_DOUBLE_EQ(top_k_score(scores, runtimes, k), 1 / (1 + loop_slowdown(scores, runtimes, k)));
    }
  }
}

/// Constants from scipy.stats.kendalltau 1.10.
TEST(KendallTau, EqualsScipy) {
  EXPECT_NEAR(kendall_tau(Values{12, 2, 1, 12, 2}, Values{1, 4, 7, 1, 0}), -0.4714045207910316, 1e-14);
  EXPECT_NEAR(kendall_tau(Values{1, 2, 3, 4}, Values{1, 2, 4, 3}), 0.6666666666666669, 1e-14);
  EXPECT_NEAR(kendall_tau(Values{0.5, 0.5, 1.5, -2, 3, 3, 3, 0}, Values{10, 20, 20, 5, 40, 40, 30, 5}),
              0.8981462390204987, 1e-14);
  EXPECT_NEAR(kendall_tau(Values{2, 0, 1, 3, 0, 0, 0, 5, 5, 3, 2, 3, 1, 1, 2, 5, 0, 4, 4, 5},
                          Values{0, 2, 1, 2, 2, 2, 4, 1, 3, 2, 0, 1, 2, 0, 3, 0, 3, 1, 3, 0}),
              -0.2588309565185115, 1e-14);
}

TEST(PairAccuracies, EqualHandComputedValues) {
  // Pairs by run time: (0,1) right, (0,2) tied, (0,3) right, (1,2) wrong, (1,3) right; 2 and 3 ran alike.
  const Values scores{1, 2, 1, 3}, runtimes{10, 20, 30, 30};
  EXPECT_DOUBLE_EQ(ordered_pair_accuracy(scores, runtimes), 3.0 / 5);
  EXPECT_DOUBLE_EQ(pairwise_accuracy(scores, runtimes), 3.5 / 5);
  EXPECT_EQ(ordered_pair_accuracy(Values{0, 0}, Values{1, 2}), 0.0);
  EXPECT_EQ(pairwise_accuracy(Values{0, 0}, Values{1, 2}), 0.5);
}

TEST(PairAccuracies, CountPastThirtyTwoBits) {
  const size_t n = 100'000;  // 5e9 pairs
  Values ascending(n), descending(n);
  for (size_t i = 0; i < n; ++i) ascending[i] = static_cast<double>(i), descending[n - 1 - i] = static_cast<double>(i);
  EXPECT_EQ(ordered_pair_accuracy(ascending, ascending), 1.0);
  EXPECT_EQ(ordered_pair_accuracy(descending, ascending), 0.0);
  EXPECT_EQ(kendall_tau(descending, ascending), -1.0);
}

TEST(TopK, EqualsHandComputedValues) {
  const Values scores{5, 1, 2, 4}, runtimes{10, 40, 30, 20};
  EXPECT_DOUBLE_EQ(top_k_slowdown(scores, runtimes, 1), 3.0);
  EXPECT_DOUBLE_EQ(top_k_slowdown(scores, runtimes, 2), 2.0);
  EXPECT_DOUBLE_EQ(top_k_slowdown(scores, runtimes, 3), 1.0);
  EXPECT_DOUBLE_EQ(top_k_slowdown(scores, runtimes, 4), 0.0);
  EXPECT_DOUBLE_EQ(top_k_score(scores, runtimes, 1), 0.25);
}

TEST(TopK, BreaksTiesInScoresByPosition) {
  EXPECT_DOUBLE_EQ(top_k_slowdown(Values{1, 1, 1}, Values{30, 10, 20}, 1), 2.0);
  EXPECT_DOUBLE_EQ(top_k_slowdown(Values{1, 1, 1}, Values{20, 10, 30}, 1), 1.0);
}

TEST(TopK, IsDefinedAtTheEdges) {
  EXPECT_EQ(top_k_slowdown(Values{1, 2}, Values{20, 10}, 7), 0.0) << "k past the end";
  EXPECT_EQ(top_k_slowdown(Values{1}, Values{20}, 1), 0.0) << "one candidate";
  EXPECT_EQ(top_k_score(Values{1, 2}, Values{20, 20}, 1), 1.0) << "constant run times";
  EXPECT_TRUE(std::isnan(top_k_slowdown(Values{}, Values{}, 1)));
  EXPECT_TRUE(std::isnan(top_k_slowdown(Values{1, 2}, Values{0, 0}, 1))) << "unlabelled";
  EXPECT_TRUE(std::isnan(top_k_score(Values{1, 2}, Values{0, 0}, 1)));
  EXPECT_THROW(top_k_slowdown(Values{1}, Values{20}, 0), BrokenInvariant);
}

TEST(Metrics, AreNanWhereUndefined) {
  for (const auto& values : {Values{}, Values{1}, Values{2, 2, 2}}) {
    const Values scores(values.size(), 1.0);
    EXPECT_TRUE(std::isnan(kendall_tau(scores, values)));
    EXPECT_TRUE(std::isnan(ordered_pair_accuracy(scores, values)));
    EXPECT_TRUE(std::isnan(pairwise_accuracy(scores, values)));
  }
  EXPECT_EQ(kendall_tau(Values{3, 3}, Values{1, 2}), 0.0);
  const Values nan{1, NAN, 3}, good{1, 2, 3};
  EXPECT_TRUE(group_metrics({nan, nan}, good, Contest::tile).empty());
  EXPECT_TRUE(group_metrics({good, good}, nan, Contest::tile).empty());
}

TEST(Metrics, RefuseSequencesOfDifferentLengths) {
  const Values two{1, 2}, three{1, 2, 3};
  EXPECT_THROW(kendall_tau(two, three), BrokenInvariant);
  EXPECT_THROW(ordered_pair_accuracy(two, three), BrokenInvariant);
  EXPECT_THROW(pairwise_accuracy(two, three), BrokenInvariant);
  EXPECT_THROW(top_k_slowdown(two, three, 1), BrokenInvariant);
  EXPECT_THROW(mean_absolute_error(two, three), BrokenInvariant);
  EXPECT_THROW(r_squared(two, three), BrokenInvariant);
}

TEST(Regression, EqualsHandComputedValues) {
  const Values predicted{1, 4, 2}, measured{2, 2, 5};
  EXPECT_DOUBLE_EQ(mean_absolute_error(predicted, measured), 2.0);
  EXPECT_DOUBLE_EQ(root_mean_squared_error(predicted, measured), std::sqrt(14.0 / 3));
  EXPECT_DOUBLE_EQ(mean_absolute_percentage_error(predicted, measured), (0.5 + 1.0 + 0.6) / 3);
  EXPECT_DOUBLE_EQ(r_squared(predicted, measured), 1 - 14.0 / 6);
  EXPECT_DOUBLE_EQ(r_squared(measured, measured), 1.0);
  EXPECT_DOUBLE_EQ(r_squared(Values{3, 3, 3}, measured), 0.0);
}

TEST(Regression, IsNanWhereUndefined) {
  EXPECT_TRUE(std::isnan(mean_absolute_error(Values{}, Values{})));
  EXPECT_TRUE(std::isnan(root_mean_squared_error(Values{}, Values{})));
  EXPECT_TRUE(std::isnan(mean_absolute_percentage_error(Values{1}, Values{0})));
  EXPECT_TRUE(std::isnan(r_squared(Values{1, 2, 3}, Values{0.1, 0.1, 0.1})));
  EXPECT_TRUE(std::isnan(r_squared(Values{1}, Values{1})));
}

TEST(MetricTable, AreKnownByNameWithAndWithoutTheirSet) {
  for (const auto& info : all_metrics()) {
    EXPECT_EQ(find_metric(info.name), &info);
    EXPECT_EQ(find_metric(fmt::format("valid/{}", info.name)), &info);
    EXPECT_FALSE(info.title.empty());
  }
  EXPECT_EQ(find_metric("val_loss"), nullptr);
  EXPECT_EQ(find_metric(""), nullptr);
}

TEST(MetricTable, DirectionsAreThoseOfTheTable) {
  for (const char* name : {"mae", "rmse", "mape", "top1_slowdown", "top100_slowdown", "seconds", "memory"})
    EXPECT_TRUE(find_metric(name)->lower_is_better) << name;
  for (const char* name : {"kendall_tau", "opa", "pairwise_accuracy", "top1_score", "contest_score", "accuracy"})
    EXPECT_FALSE(find_metric(name)->lower_is_better) << name;
}

TEST(GroupMetrics, HaveTheNamesOfTheField) {
  const Values scores{5, 1, 2, 4}, runtimes{10, 40, 30, 20};
  const auto tile = group_metrics({scores, scores}, runtimes, Contest::tile);
  const std::map<std::string, double> expected = {{"kendall_tau", kendall_tau(scores, runtimes)},
                                                  {"opa", ordered_pair_accuracy(scores, runtimes)},
                                                  {"pairwise_accuracy", pairwise_accuracy(scores, runtimes)},
                                                  {"top1_slowdown", 3.0},
                                                  {"top5_slowdown", 0.0},
                                                  {"top10_slowdown", 0.0},
                                                  {"top100_slowdown", 0.0},
                                                  {"top1_score", 0.25},
                                                  {"top5_score", 1.0},
                                                  {"contest_score", 1.0},
                                                  {"mae", mean_absolute_error(scores, runtimes)},
                                                  {"rmse", root_mean_squared_error(scores, runtimes)},
                                                  {"mape", mean_absolute_percentage_error(scores, runtimes)},
                                                  {"r_squared", r_squared(scores, runtimes)}};
  EXPECT_EQ(tile, expected);
  EXPECT_EQ(group_metrics({scores, {}}, runtimes, Contest::layout).at("contest_score"), tile.at("kendall_tau"));
  const auto program = group_metrics({scores, {}}, runtimes, Contest::none);
  EXPECT_EQ(program.count("contest_score") + program.count("mae"), 0u);
}

TEST(GroupMetrics, TileContestScoreIsTwoMinusTheRatio) {
  Values scores(7), runtimes{70, 60, 50, 40, 30, 20, 10};
  std::iota(scores.begin(), scores.end(), 0.0);  // the best five are the slowest: 70 … 30
  EXPECT_DOUBLE_EQ(group_metrics({scores, {}}, runtimes, Contest::tile).at("contest_score"), 2 - 30.0 / 10);
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(JoinedScores, OfRunTimesAreTheirGeometricMeans) {
  const auto joined = joined_scores({{{9, 9, 9}, {1.0, 4.0, 2.0}}, {{8, 8, 8}, {4.0, 4.0, 0.5}}});
  const std::vector<double> expected = {2.0, 4.0, 1.0};
  ASSERT_EQ(joined.predicted.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(joined.predicted[i], expected[i], 1e-12);
  EXPECT_EQ(joined.scores, joined.predicted);
}

TEST(JoinedScores, WithoutRunTimesAreMeansOfStandardizedScores) {
  // Deviations 1 and 100: by hand (-1, 1) and (1, -1) twice.
  const auto joined = joined_scores({{{1, 3}, {1, 2}}, {{400, 200}, {}}, {{-3, -5}, {}}});
  EXPECT_TRUE(joined.predicted.empty()) << "not all predict run times";
  EXPECT_NEAR(joined.scores.at(0), 1.0 / 3, 1e-12);
  EXPECT_NEAR(joined.scores.at(1), -1.0 / 3, 1e-12);
}

TEST(JoinedScores, RunTimesThatHaveNoLogarithmAreRankedOnly) {
  for (const double time : {0.0, -2.0, kInfinity, std::nan("")}) {
    const auto joined = joined_scores({{{1, 2}, {1, 2}}, {{5, 7}, {1, time}}});
    EXPECT_TRUE(joined.predicted.empty()) << time;
    EXPECT_NEAR(joined.scores.at(0), -1.0, 1e-12);
    EXPECT_NEAR(joined.scores.at(1), 1.0, 1e-12);
  }
}

TEST(JoinedScores, EqualScoresSayNothing) {
  const auto joined = joined_scores({{{7, 7, 7}, {}}, {{1, 2, 3}, {}}});
  EXPECT_LT(joined.scores.at(0), joined.scores.at(1));
  EXPECT_EQ(joined.scores.at(1), 0.0);
}

TEST(JoinedScores, OneMemberIsGivenBack) {
  const auto joined = joined_scores({{{3, 1}, {0, -1}}});
  EXPECT_EQ(joined.scores, (std::vector<double>{3, 1}));
  EXPECT_EQ(joined.predicted, (std::vector<double>{0, -1}));
}

std::vector<double> levels_of(const std::vector<double>& thresholds, const std::vector<double>& scores) {
  std::vector<double> levels;
  for (const double score : scores) levels.push_back(static_cast<double>(level_of(thresholds, score)));
  return levels;
}

/// Every choice of thresholds between distinct scores: the slow twin of few candidates.
double best_tau(const std::vector<double>& scores, const std::vector<double>& runtimes) {
  auto distinct = scores;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  double best = -1;
  for (uint32_t mask = 1; mask < 1U << (distinct.size() - 1); ++mask) {
    std::vector<double> thresholds;
    for (size_t i = 0; i + 1 < distinct.size(); ++i) {
      if ((mask >> i & 1) != 0) thresholds.push_back((distinct[i] + distinct[i + 1]) / 2);
    }
    best = std::max(best, kendall_tau(levels_of(thresholds, scores), runtimes));
  }
  return best;
}

TEST(ScoreLevels, AreNearTheBestChoiceAndNeverWorseThanTheScores) {
  std::mt19937 random(1);
  std::normal_distribution<double> noise;
  double sum = 0, best_sum = 0;
  for (int round = 0; round < 40; ++round) {
    std::vector<double> scores, runtimes;
    for (int i = 0; i < 11; ++i) {
      const double truth = static_cast<double>(random() % 3);
      scores.push_back(std::round((truth + 0.3 * noise(random)) * 8) / 8);  // some of them equal
      runtimes.push_back(100 * truth + noise(random));
    }
    const auto thresholds = level_thresholds(scores, runtimes);
    EXPECT_TRUE(std::is_sorted(thresholds.begin(), thresholds.end()));
    const double tau = kendall_tau(levels_of(thresholds, scores), runtimes), best = best_tau(scores, runtimes);
    EXPECT_LE(tau, best + 1e-12);
    EXPECT_GE(tau, kendall_tau(scores, runtimes) - 1e-12);
    sum += tau;
    best_sum += best;
  }
  EXPECT_GT(sum, 0.97 * best_sum);
}

TEST(ScoreLevels, FindClustersOfRunTimesBelowTheNoise) {
  std::mt19937 random(2);
  std::normal_distribution<double> noise;
  const auto draw = [&](std::vector<double>& scores, std::vector<double>& runtimes) {
    for (int i = 0; i < 1000; ++i) {
      const double cluster = static_cast<double>(random() % 4);
      scores.push_back(cluster + 0.1 * noise(random));
      runtimes.push_back(1000 * cluster + noise(random));
    }
  };
  std::vector<double> scores, runtimes, other_scores, other_runtimes;
  draw(scores, runtimes);
  draw(other_scores, other_runtimes);
  const auto thresholds = level_thresholds(scores, runtimes);
  EXPECT_EQ(thresholds.size(), 3U);
  // Others of the same kind, which the thresholds have not seen: an order within clusters would be a coin's.
  EXPECT_NEAR(kendall_tau(levels_of(thresholds, other_scores), other_runtimes), std::sqrt(0.75), 0.01);
  EXPECT_LT(kendall_tau(other_scores, other_runtimes), 0.78);
}

TEST(Metrics, OfThoseThatRanAndHowFailuresAreTold) {
  constexpr double kFailed = std::numeric_limits<double>::infinity();
  const std::vector<double> scores = {1, 5, 2, 3, 3}, runtimes = {10, kFailed, 30, kFailed, 20};
  EXPECT_DOUBLE_EQ(failure_auc(scores, runtimes), (3 + 2.5) / 6);
  const auto metrics = group_metrics({scores, scores}, runtimes, Contest::none);
  const std::vector<double> ran_scores = {1, 2, 3}, ran = {10, 30, 20};
  auto expected = group_metrics({ran_scores, ran_scores}, ran, Contest::none);
  EXPECT_FALSE(expected.contains("failure_auc"));
  expected["failure_auc"] = (3 + 2.5) / 6;
  EXPECT_EQ(metrics, expected);
  const auto leveled = group_metrics({scores, {}, {0, 2, 1, 1, 1}}, runtimes, Contest::none);
  EXPECT_DOUBLE_EQ(leveled.at("kendall_tau"), kendall_tau(std::vector<double>{0, 1, 1}, ran));
  EXPECT_DOUBLE_EQ(leveled.at("kendall_tau_of_scores"), kendall_tau(ran_scores, ran));
  EXPECT_TRUE(std::isnan(failure_auc(ran_scores, ran)));
  EXPECT_TRUE(std::isnan(failure_auc(std::vector<double>{1, 2}, std::vector<double>{kFailed, kFailed})));
}

TEST(ScoreLevels, AreAllScoresWhereTheirOrderIsRight) {
  const std::vector<double> scores = {3, 0, 2, 1}, runtimes = {40, 10, 30, 20};
  EXPECT_EQ(level_thresholds(scores, runtimes), (std::vector<double>{0.5, 1.5, 2.5}));
  // Between neighbours there is no number; the upper one begins its level.
  const std::vector<double> near = {1.0, std::nextafter(1.0, 2.0)};
  const auto thresholds = level_thresholds(near, std::vector<double>{10, 20});
  EXPECT_EQ(level_of(thresholds, near[0]), 0);
  EXPECT_EQ(level_of(thresholds, near[1]), 1);
}

TEST(ScoreLevels, SayNothingWhereNothingCanBeSaid) {
  EXPECT_TRUE(level_thresholds({}, {}).empty());
  EXPECT_TRUE(level_thresholds(std::vector<double>{1}, std::vector<double>{2}).empty());
  EXPECT_TRUE(level_thresholds(std::vector<double>{1, 1, 1}, std::vector<double>{1, 2, 3}).empty());
  EXPECT_TRUE(level_thresholds(std::vector<double>{1, 2, 3}, std::vector<double>{5, 5, 5}).empty());
  EXPECT_EQ(level_of({}, 3), 0);
  const std::vector<double> thresholds = {1, 2};
  EXPECT_EQ(level_of(thresholds, 0.5), 0);
  EXPECT_EQ(level_of(thresholds, 1), 1);
  EXPECT_EQ(level_of(thresholds, 7), 2);
}

}  // namespace
}  // namespace foretime::metrics
