#include <algorithm>

#include <gtest/gtest.h>

#include "jobs/error.h"
#include "jobs/sweep/sweep.h"

namespace foretime::jobs {
namespace {

using Rungs = std::vector<int64_t>;

Rungs first(const HalvingRule& rule, size_t count) {
  return {rule.rungs.begin(), rule.rungs.begin() + static_cast<ptrdiff_t>(std::min(count, rule.rungs.size()))};
}

TEST(Halving, FromMinIsAGeometricSeries) {
  const HalvingRule rule = halving_from_min(3, 3);
  EXPECT_EQ(first(rule, 4), (Rungs{3, 9, 27, 81}));
  EXPECT_EQ(rule.eta, 3);
  EXPECT_TRUE(rule.enabled());
  EXPECT_LE(rule.rungs.back(), 1000000000);
  EXPECT_EQ(first(halving_from_min(1, 2), 4), (Rungs{1, 2, 4, 8}));
}

TEST(Halving, RungsThatFallTogetherCountOnce) {
  // 1, 1.5, 2.25, 3.375, 5.06, 7.59: whole parts, each once.
  EXPECT_EQ(first(halving_from_min(1, 1.5), 5), (Rungs{1, 2, 3, 5, 7}));
  const HalvingRule slow = halving_from_min(1, 1.01);
  for (size_t i = 1; i < slow.rungs.size(); ++i) EXPECT_LT(slow.rungs[i - 1], slow.rungs[i]);
  EXPECT_LE(slow.rungs.size(), 64U);
}

TEST(Halving, FromMaxCountsDown) {
  // The example of W&B's documentation: s 2, eta 3, max_iter 27 gives rungs 27 / 3 and 27 / 9.
  EXPECT_EQ(halving_from_max(27, 2, 3).rungs, (Rungs{3, 9}));
  EXPECT_EQ(halving_from_max(5, 2, 2).rungs, (Rungs{1, 2}));
  EXPECT_EQ(halving_from_max(16, 3, 2).rungs, (Rungs{2, 4, 8}));
  // More rungs than there is room for: those below one evaluation are left out, as in W&B.
  EXPECT_EQ(halving_from_max(9, 10, 3).rungs, (Rungs{1, 3}));
}

TEST(Halving, RefusesWhatMakesNoRungs) {
  EXPECT_THROW(halving_from_min(0, 3), SweepError);
  EXPECT_THROW(halving_from_min(1, 1), SweepError);
  EXPECT_THROW(halving_from_min(1, 0.5), SweepError);
  EXPECT_THROW(halving_from_max(2, 1, 3), SweepError);
  EXPECT_THROW(halving_from_max(0, 1, 3), SweepError);
  EXPECT_THROW(halving_from_max(27, 0, 3), SweepError);
}

}  // namespace
}  // namespace foretime::jobs
