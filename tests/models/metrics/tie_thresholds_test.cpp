#include "models/metrics/tie_thresholds.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "base/kendall.h"
#include "models/metrics/metrics.h"

namespace foretime::models {
namespace {

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
}  // namespace foretime::models
