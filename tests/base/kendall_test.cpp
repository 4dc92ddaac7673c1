#include "base/kendall.h"

#include <cmath>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"

namespace foretime {
namespace {

/// Every pair, as τ-b is defined.
double tau_by_pairs(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0, untied_a = 0, untied_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const int sign_a = (a[i] > a[j]) - (a[i] < a[j]), sign_b = (b[i] > b[j]) - (b[i] < b[j]);
      sum += sign_a * sign_b;
      untied_a += sign_a != 0;
      untied_b += sign_b != 0;
    }
  }
  if (untied_b == 0) return NAN;
  return untied_a == 0 ? 0.0 : sum / std::sqrt(untied_a) / std::sqrt(untied_b);
}

TEST(KendallTau, EqualsTheSumOverPairs) {
  std::mt19937 random(1);
  for (int round = 0; round < 400; ++round) {
    const size_t n = 2 + random() % 40;
    const unsigned levels = 1 + random() % 30;
    std::vector<double> a(n), b(n);
    for (size_t i = 0; i < n; ++i) {
      a[i] = static_cast<double>(random() % levels) - 7.5;
      b[i] = round % 2 ? static_cast<double>(random() % 12) : static_cast<double>(random());
    }
    const double expected = tau_by_pairs(a, b), found = kendall_tau_b(a, b);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(found));
    } else {
      EXPECT_NEAR(found, expected, 1e-12) << round;
    }
  }
}

TEST(KendallTau, HasTheValuesComputedByHand) {
  const std::vector<double> up = {1, 2, 3, 4}, down = {4, 3, 2, 1}, flat = {2, 2, 2, 2}, swapped = {2, 1, 3, 4};
  EXPECT_EQ(kendall_tau_b(up, up), 1.0);
  EXPECT_EQ(kendall_tau_b(up, down), -1.0);
  EXPECT_DOUBLE_EQ(kendall_tau_b(up, swapped), 4.0 / 6.0);
  EXPECT_DOUBLE_EQ(kendall_tau_b(std::vector<double>{1, 1, 2, 3}, up), 5.0 / std::sqrt(5.0 * 6.0));
  EXPECT_EQ(kendall_tau_b(flat, up), 0.0);
  EXPECT_TRUE(std::isnan(kendall_tau_b(up, flat)));
  EXPECT_TRUE(std::isnan(kendall_tau_b(flat, flat)));
  EXPECT_TRUE(std::isnan(kendall_tau_b(std::vector<double>{1}, std::vector<double>{1})));
  EXPECT_TRUE(std::isnan(kendall_tau_b({}, {})));
  EXPECT_TRUE(std::isnan(kendall_tau_b(std::vector<double>{1, NAN}, std::vector<double>{1, 2})));
  EXPECT_THROW(kendall_tau_b(up, std::vector<double>{1}), DataError);
}

TEST(NoiseCeiling, IsTauOfEachConfigurationsMean) {
  std::mt19937 random(2);
  for (int round = 0; round < 50; ++round) {
    const size_t n = 2 + random() % 30;
    std::vector<uint64_t> hashes(n);
    std::vector<double> runtimes(n), oracle(n);
    std::map<uint64_t, std::pair<double, int>> sums;
    for (size_t i = 0; i < n; ++i) {
      hashes[i] = (random() % 8) * 0x9E3779B97F4A7C15U;
      runtimes[i] = static_cast<double>(random() % 1000);
      sums[hashes[i]].first += runtimes[i];
      sums[hashes[i]].second += 1;
    }
    for (size_t i = 0; i < n; ++i) oracle[i] = sums[hashes[i]].first / sums[hashes[i]].second;
    EXPECT_NEAR(noise_ceiling_tau(hashes, runtimes), tau_by_pairs(oracle, runtimes), 1e-12);
  }
  EXPECT_EQ(noise_ceiling_tau(std::vector<uint64_t>{1, 2, 3}, std::vector<double>{3, 1, 2}), 1.0);
  EXPECT_EQ(noise_ceiling_tau(std::vector<uint64_t>{5, 5, 5}, std::vector<double>{3, 1, 2}), 0.0);
}

}  // namespace
}  // namespace foretime
