#include "jobs/sweep/search_space.h"

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "jobs/error.h"

namespace foretime::jobs {
namespace {

using ::testing::HasSubstr;

ParameterSpace between(Distribution distribution, double min, double max, const std::string& key = "x") {
  return {.key = key, .distribution = distribution, .min = min, .max = max};
}

ParameterSpace categories(std::vector<std::string> values, const std::string& key = "c") {
  return {.key = key, .distribution = Distribution::categorical, .values = std::move(values)};
}

double number_at(const ParameterSpace& p, double u) { return std::stod(value_at(p, u)); }

TEST(Quantiles, NormalAgreesWithReference) {
  // Python 3.11, statistics.NormalDist().inv_cdf, which is Wichura's AS 241.
  EXPECT_NEAR(normal_quantile(1e-12), -7.034483825301132, 1e-12);
  EXPECT_NEAR(normal_quantile(1e-4), -3.719016485455709, 1e-13);
  EXPECT_NEAR(normal_quantile(0.01), -2.3263478740408408, 1e-14);
  EXPECT_NEAR(normal_quantile(0.3), -0.5244005127080409, 1e-15);
  EXPECT_NEAR(normal_quantile(0.5), 0, 1e-15);
  EXPECT_NEAR(normal_quantile(0.9), 1.2815515655446008, 1e-14);
  for (double p = 1e-6; p < 1; p += 0.00317) EXPECT_NEAR(normal_cdf(normal_quantile(p)), p, 1e-15);
}

TEST(Quantiles, BetaAgreesWithClosedForms) {
  for (double x = 0; x <= 1; x += 0.05) {
    EXPECT_NEAR(beta_cdf(x, 1, 1), x, 1e-14);
    EXPECT_NEAR(beta_cdf(x, 3, 1), x * x * x, 1e-14);
    EXPECT_NEAR(beta_cdf(x, 2, 2), x * x * (3 - 2 * x), 1e-14);
    EXPECT_NEAR(beta_cdf(x, 0.5, 0.5), 2 / M_PI * std::asin(std::sqrt(x)), 1e-13);
    EXPECT_NEAR(beta_quantile(beta_cdf(x, 2.5, 4), 2.5, 4), x, 1e-9);
  }
}

TEST(SearchSpace, EndsOfEachDistribution) {
  EXPECT_EQ(value_at(between(Distribution::uniform, -1, 3), 0), "-1");
  EXPECT_EQ(value_at(between(Distribution::uniform, -1, 3), 0.5), "1");
  EXPECT_LE(number_at(between(Distribution::uniform, -1, 3), 1), 3);
  EXPECT_EQ(value_at(between(Distribution::log_uniform, 0, 2), 0.5), "2.718281828459045");
  EXPECT_NEAR(number_at(between(Distribution::log_uniform_values, 1e-4, 1e-2), 0.5), 1e-3, 1e-17);
  EXPECT_EQ(value_at(between(Distribution::log_uniform_values, 1e-4, 1e-2), 0), "1e-04");
  // W&B: x such that log(1/x) is uniform between min and max.
  EXPECT_NEAR(number_at(between(Distribution::inv_log_uniform, 1, 3), 0), std::exp(-3), 1e-15);
  EXPECT_NEAR(number_at(between(Distribution::inv_log_uniform, 1, 3), 0.5), std::exp(-2), 1e-15);
  EXPECT_NEAR(number_at(between(Distribution::inv_log_uniform_values, 0.01, 1), 0.5), 0.1, 1e-15);

  ParameterSpace normal = between(Distribution::normal, 0, 1);
  normal.mu = 5;
  normal.sigma = 2;
  EXPECT_NEAR(number_at(normal, 0.5), 5, 1e-14);
  EXPECT_NEAR(number_at(normal, 0.9), 5 + 2 * 1.2815515655446008, 1e-13);
  EXPECT_EQ(value_at(normal, 0), value_at(normal, kTail)) << "the tails are cut";
  normal.distribution = Distribution::log_normal;
  EXPECT_NEAR(number_at(normal, 0.9), std::exp(5 + 2 * 1.2815515655446008), 1e-9);

  ParameterSpace beta = between(Distribution::beta, 0, 1);
  beta.alpha = 2;
  beta.beta = 2;
  EXPECT_NEAR(number_at(beta, 0.5), 0.5, 1e-15);
}

TEST(SearchSpace, QuantizedValuesAreMultiples) {
  ParameterSpace p = between(Distribution::q_uniform, 0, 1);
  p.q = 0.1;
  EXPECT_EQ(value_at(p, 0.31), "0.3") << "and not 0.30000000000000004";
  EXPECT_EQ(value_at(p, 0.04), "0");
  EXPECT_EQ(value_at(p, 0.9999), "1");
  p = between(Distribution::q_log_uniform_values, 32, 256);
  p.q = 8;
  for (double u = 0; u < 1; u += 0.01) EXPECT_EQ(std::fmod(number_at(p, u), 8), 0);
  p = between(Distribution::q_normal, 0, 0);
  p.mu = -0.2;
  p.sigma = 0;
  p.q = 1;
  EXPECT_EQ(value_at(p, 0.3), "0") << "and not -0";
  // numpy's round takes ties to the even multiple.
  p = between(Distribution::q_uniform, 0, 5);
  p.q = 1;
  EXPECT_EQ(value_at(p, 0.5), "2");
}

TEST(SearchSpace, WholeNumbersHaveNoExponent) {
  EXPECT_EQ(value_at(between(Distribution::int_uniform, 100000, 100000), 0.5), "100000");
  ParameterSpace p = between(Distribution::q_uniform, 1e6, 1e6);
  p.q = 1000;
  EXPECT_EQ(value_at(p, 0.5), "1000000");
  EXPECT_EQ(value_at(between(Distribution::uniform, 0.1, 0.1), 0.5), "0.1");
  EXPECT_EQ(value_at(between(Distribution::uniform, 1e-7, 1e-7), 0.5), "1e-07");
}

TEST(SearchSpace, IntegersIncludeBothEndsAlike) {
  const ParameterSpace p = between(Distribution::int_uniform, -2, 2);
  std::map<std::string, int> counts;
  for (int i = 0; i < 5000; ++i) ++counts[value_at(p, i / 5000.0)];
  ASSERT_EQ(counts.size(), 5U);
  for (const auto& [value, count] : counts) EXPECT_NEAR(count, 1000, 1) << value;
  EXPECT_EQ(value_at(p, 1), "2");
}

TEST(SearchSpace, ProbabilitiesWeighCategories) {
  ParameterSpace p = categories({"a", "b", "c"});
  EXPECT_EQ(value_at(p, 0.34), "b");
  p.probabilities = {0.5, 0, 0.5};
  EXPECT_EQ(value_at(p, 0.49), "a");
  EXPECT_EQ(value_at(p, 0.51), "c");
  EXPECT_EQ(value_at(p, 1), "c");
}

TEST(SearchSpace, CumulativeIsTheInverse) {
  for (const auto d : {Distribution::uniform, Distribution::log_uniform, Distribution::log_uniform_values,
                       Distribution::inv_log_uniform, Distribution::inv_log_uniform_values, Distribution::normal,
                       Distribution::log_normal, Distribution::beta}) {
    ParameterSpace p = between(d, 0.5, 4);
    p.alpha = 2;
    p.beta = 3;
    for (double u = 0.001; u < 1; u += 0.037)
      EXPECT_NEAR(cumulative(p, quantile(p, u)), u, 1e-9) << to_string(d) << " at " << u;
  }
}

TEST(SearchSpace, IntervalsTileTheUnitInterval) {
  for (const auto d : {Distribution::int_uniform, Distribution::q_uniform, Distribution::q_log_uniform_values}) {
    const ParameterSpace p = between(d, 1, 9);
    for (double u = 0.003; u < 1; u += 0.01) {
      const UnitInterval interval = unit_interval(p, value_at(p, u));
      EXPECT_LE(interval.low, u + 1e-12) << to_string(d);
      EXPECT_GE(interval.high, u - 1e-12) << to_string(d);
    }
  }
  EXPECT_THROW(unit_interval(between(Distribution::uniform, 0, 1), "fast"), SweepError);
}

TEST(SearchSpace, RandomTrialsDependOnSeedTrialAndKeyAlone) {
  const SearchSpace one = {between(Distribution::uniform, 0, 1, "a")};
  const SearchSpace two = {between(Distribution::uniform, 0, 1, "a"), between(Distribution::uniform, 0, 1, "b")};
  EXPECT_EQ(random_trial(one, 7, 3).at("a"), random_trial(two, 7, 3).at("a"));
  EXPECT_NE(random_trial(two, 7, 3).at("a"), random_trial(two, 7, 3).at("b"));
  EXPECT_NE(random_trial(one, 7, 3), random_trial(one, 7, 4));
  EXPECT_NE(random_trial(one, 7, 3), random_trial(one, 8, 3));

  double sum = 0, squares = 0;
  const int n = 4000;
  for (int trial = 0; trial < n; ++trial) {
    const double x = std::stod(random_trial(one, 1, trial).at("a"));
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / n, 0.5, 0.02);
  EXPECT_NEAR(squares / n, 1.0 / 3, 0.02);
}

TEST(SearchSpace, RandomTrialsOfAGridAreAllDifferentUntilAllWereDrawn) {
  const SearchSpace space = {categories({"0.1", "0.2", "0.3", "0.4"}, "rate"),
                             between(Distribution::int_uniform, 1, 3, "layers"), categories({"7"}, "k")};
  for (const uint64_t seed : {1, 2, 3}) {
    std::set<Parameters> first, second;
    for (int64_t trial = 0; trial < 12; ++trial) {
      first.insert(random_trial(space, seed, trial));
      second.insert(random_trial(space, seed, 12 + trial));
    }
    EXPECT_EQ(first.size(), 12U);
    EXPECT_EQ(second, first);
  }
  EXPECT_NE(random_trial(space, 1, 0), random_trial(space, 2, 0)) << "another seed has another order";
  // Each combination is as likely as any other at each place.
  std::map<Parameters, int> starts;
  for (uint64_t seed = 0; seed < 1200; ++seed) ++starts[random_trial(space, seed, 0)];
  ASSERT_EQ(starts.size(), 12U);
  for (const auto& [parameters, count] : starts) EXPECT_NEAR(count, 100, 50);
}

TEST(SearchSpace, LikelierCombinationsOfAGridComeEarlierAndNoneTwice) {
  auto weighted = categories({"often", "seldom"}, "w");
  weighted.probabilities = {0.9, 0.1};
  const SearchSpace space = {weighted, categories({"a", "b"}, "x")};
  int often = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    std::set<Parameters> all;
    for (int64_t trial = 0; trial < 4; ++trial) all.insert(random_trial(space, seed, trial));
    EXPECT_EQ(all.size(), 4U);
    often += random_trial(space, seed, 0).at("w") == "often" ? 1 : 0;
  }
  EXPECT_NEAR(often, 900, 60);
}

TEST(SearchSpace, GridHasEachCombinationOnceLastKeyFastest) {
  ParameterSpace q = between(Distribution::q_uniform, 0, 1, "q");
  q.q = 0.5;
  const SearchSpace space = {categories({"x", "y"}, "c"), between(Distribution::int_uniform, 1, 3, "i"), q};
  ASSERT_EQ(grid_size(space), 18);
  EXPECT_EQ(grid_trial(space, 0), (Parameters{{"c", "x"}, {"i", "1"}, {"q", "0"}}));
  EXPECT_EQ(grid_trial(space, 1), (Parameters{{"c", "x"}, {"i", "1"}, {"q", "0.5"}}));
  EXPECT_EQ(grid_trial(space, 17), (Parameters{{"c", "y"}, {"i", "3"}, {"q", "1"}}));
  std::set<Parameters> all;
  for (int64_t i = 0; i < 18; ++i) all.insert(grid_trial(space, i));
  EXPECT_EQ(all.size(), 18U);
}

TEST(SearchSpace, GridOfContinuousOrHugeSpaces) {
  EXPECT_FALSE(grid_size({between(Distribution::uniform, 0, 1)}));
  EXPECT_THROW(grid_trial({between(Distribution::uniform, 0, 1)}, 0), SweepError);
  SearchSpace huge;
  for (const char* key : {"a", "b", "c"}) huge.push_back(between(Distribution::int_uniform, 0, 1e12, key));
  EXPECT_EQ(grid_size(huge), std::numeric_limits<int64_t>::max());
}

TEST(SearchSpace, JsonRoundTrips) {
  SearchSpace space = {categories({"a", "[mean, max]", "\"q\""}, "c"),
                       between(Distribution::log_uniform_values, 1e-5, 0.1, "e")};
  space[0].probabilities = {0.2, 0.3, 0.5};
  ParameterSpace constant = categories({"7"}, "k");
  constant.distribution = Distribution::constant;
  space.push_back(constant);
  ParameterSpace beta = between(Distribution::q_beta, 0, 1, "z");
  beta.alpha = 2;
  beta.beta = 0.7;
  beta.q = 0.05;
  space.push_back(beta);
  const SearchSpace read = parse_search_space(to_json(space));
  EXPECT_EQ(to_json(read), to_json(space));
  for (double u = 0; u < 1; u += 0.1)
    for (size_t i = 0; i < space.size(); ++i) EXPECT_EQ(value_at(read[i], u), value_at(space[i], u));
}

TEST(SearchSpace, DamagedJsonIsAnError) {
  for (const char* text :
       {"", "{", "[1]", "{\"a\": 1}", "[{\"key\": \"x\"}]", R"([{"key": "x", "distribution": "gamma"}])",
        R"([{"key": "x", "distribution": "uniform", "min": "0"}])",
        R"([{"key": "x", "distribution": "uniform", "min": 2, "max": 1}])",
        R"([{"key": "x", "distribution": "categorical"}])",
        R"([{"key": "x", "distribution": "log_uniform_values", "min": 0, "max": 1}])"})
    EXPECT_THROW(parse_search_space(text), SweepError) << text;
}

TEST(SearchSpace, ChecksNameWhatIsWrong) {
  EXPECT_THAT(check(between(Distribution::log_uniform_values, 0, 1)), HasSubstr("min 0, expected > 0"));
  EXPECT_THAT(check(between(Distribution::log_uniform, 1, 1000)), HasSubstr("log_uniform_values takes values"));
  EXPECT_THAT(check(between(Distribution::int_uniform, 1.5, 2)), HasSubstr("expected integers"));
  ParameterSpace p = categories({"a", "b"});
  p.probabilities = {0.5, 0.6};
  EXPECT_THAT(check(p), HasSubstr("add up to 1.1"));
  p.probabilities = {1};
  EXPECT_THAT(check(p), HasSubstr("1 probabilities for 2 values"));
  p = between(Distribution::q_uniform, 0, 1);
  p.q = 0;
  EXPECT_THAT(check(p), HasSubstr("q 0, expected > 0"));
  p = between(Distribution::normal, 0, 1);
  p.sigma = -1;
  EXPECT_THAT(check(p), HasSubstr("sigma -1"));
}

}  // namespace
}  // namespace foretime::jobs
