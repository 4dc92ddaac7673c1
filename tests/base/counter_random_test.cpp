#include "base/counter_random.h"

#include <set>

#include <gtest/gtest.h>

namespace foretime {
namespace {

TEST(CounterRandom, DependsOnEveryWordAndTheirOrder) {
  EXPECT_EQ(random_bits({1, 2, 3}), random_bits({1, 2, 3}));
  EXPECT_NE(random_bits({1, 2, 3}), random_bits({1, 3, 2}));
  EXPECT_NE(random_bits({1, 2, 3}), random_bits({1, 2, 4}));
  EXPECT_NE(random_bits({1, 2}), random_bits({1, 2, 0}));
}

TEST(CounterRandom, UnitNumbersAreUniform) {
  double sum = 0, square = 0;
  constexpr int kDraws = 20000;
  for (uint64_t i = 0; i < kDraws; ++i) {
    const double x = random_unit({7, i});
    ASSERT_GE(x, 0.0);
    ASSERT_LT(x, 1.0);
    sum += x;
    square += x * x;
  }
  EXPECT_NEAR(sum / kDraws, 0.5, 0.01);
  EXPECT_NEAR(square / kDraws, 1.0 / 3, 0.01);
}

TEST(CounterRandom, GumbelHasItsMean) {
  double sum = 0;
  constexpr int kDraws = 20000;
  for (uint64_t i = 0; i < kDraws; ++i) sum += random_gumbel({9, i});
  EXPECT_NEAR(sum / kDraws, 0.5772, 0.03);  // Euler's constant
}

class Permutation : public ::testing::TestWithParam<uint64_t> {};

TEST_P(Permutation, VisitsEveryNumberOnce) {
  const uint64_t n = GetParam();
  const KeyedPermutation permutation(n, 42);
  std::set<uint64_t> seen;
  for (uint64_t i = 0; i < n; ++i) {
    EXPECT_LT(permutation(i), n);
    seen.insert(permutation(i));
  }
  EXPECT_EQ(seen.size(), n);
}
INSTANTIATE_TEST_SUITE_P(Sizes, Permutation, ::testing::Values(1, 2, 3, 4, 5, 16, 17, 100, 1000, 4097));

TEST(CounterRandom, PermutationsOfDifferentKeysDiffer) {
  const KeyedPermutation a(1000, 1), b(1000, 2);
  int same = 0;
  for (uint64_t i = 0; i < 1000; ++i) same += a(i) == b(i) ? 1 : 0;
  EXPECT_LT(same, 20);
}

}  // namespace
}  // namespace foretime
