#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "models/metrics/metrics.h"

namespace foretime::models {
namespace {

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

}  // namespace
}  // namespace foretime::models
