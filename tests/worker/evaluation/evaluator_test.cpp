#include "worker/evaluation/evaluator.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "metrics/metrics.h"
#include "plans/plan_source.h"
#include "tests/support/ranks.h"
#include "tests/support/synthetic_graph.h"
#include "tests/worker/samples.h"

namespace foretime::worker {
namespace {

/// Scores by the first character of the candidate's id and a made-up prediction: enough to check sums.
Scorer by_position() {
  return [](const LoadedGroup&, const std::vector<int64_t>& candidates) {
    Scores scores;
    for (const int64_t c : candidates) {
      scores.scores.push_back(static_cast<double>((c * 7919) % 101));
      scores.predicted.push_back(1e-3 * static_cast<double>(c % 5));
    }
    return scores;
  };
}

std::vector<Evaluation> evaluate_on(int ranks, const Scorer& scorer = by_position()) {
  testing::RunParts run(testing::sample_settings(), ranks);
  std::vector<Evaluation> results(static_cast<size_t>(ranks));
  foretime::testing::run_threads(ranks, [&](comm::Communicator& comm) {
    results[static_cast<size_t>(comm.rank())] =
        evaluate(scorer, {"holdout", "test"}, {run.dataset, run.plan, run.store, comm});
  });
  return results;
}

TEST(Evaluate, ManyRanksReportWhatOneReports) {
  const auto one = evaluate_on(1), three = evaluate_on(3);
  ASSERT_FALSE(one[0].metrics.empty());
  for (const auto& result : three) {
    ASSERT_EQ(result.metrics.size(), one[0].metrics.size());
    for (const auto& [name, value] : one[0].metrics) EXPECT_NEAR(result.metrics.at(name), value, 1e-12) << name;
  }
  EXPECT_EQ(three[0].groups.size(), 3U);
  EXPECT_TRUE(three[1].groups.empty());
  EXPECT_EQ(rankings_csv(three[0]), rankings_csv(one[0]));
}

TEST(Evaluate, InfinitePredictionsOfADivergedModelReachRankZero) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto result = evaluate_on(2, [](const LoadedGroup&, const std::vector<int64_t>& candidates) {
    Scores scores;
    scores.scores.assign(candidates.size(), 1.0);
    scores.predicted.assign(candidates.size(), std::numeric_limits<double>::infinity());
    return scores;
  })[0];
  EXPECT_EQ(result.metrics.at("holdout/mae"), kInfinity);
  EXPECT_EQ(result.groups.front().scores.predicted.front(), kInfinity);
}

TEST(Evaluate, ErrorsAreMeansOverCandidatesAndRankingsOverGroups) {
  const auto result = evaluate_on(1)[0];
  double tau = 0, groups = 0, error = 0, candidates = 0;
  for (const auto& group : result.groups) {
    if (group.set != "holdout") continue;
    tau += metrics::kendall_tau(group.scores.scores, group.runtimes);
    groups += 1;
    for (size_t i = 0; i < group.runtimes.size(); ++i) error += std::abs(group.scores.predicted[i] - group.runtimes[i]);
    candidates += static_cast<double>(group.runtimes.size());
  }
  EXPECT_EQ(groups, 2);
  EXPECT_NEAR(result.metrics.at("holdout/kendall_tau"), tau / groups, 1e-12);
  EXPECT_NEAR(result.metrics.at("holdout/mae"), error / candidates, 1e-15);
}

TEST(EvaluateGroup, WithoutLabelsThereIsARankingAndNoMetric) {
  auto group = testing::tile_group("g", {1, 2, 3});
  group.runtimes = std::vector<double>{0, 0, 0};
  const auto result = evaluate_group(by_position(), "test", {.group = group}, {0, 1, 2});
  EXPECT_TRUE(result.metrics.empty());
  EXPECT_EQ(result.scores.scores.size(), 3U);
}

TEST(EvaluateGroup, TheCeilingKnowsEveryMeasurement) {
  // Candidates 0 and 1 are one configuration, measured as 2 and 8; the oracle says 5 for both, and 3 for candidate 2.
  auto group = testing::tile_group("g", {1, 1, 2});
  group.runtimes = std::vector<double>{2, 8, 3};
  const auto all = evaluate_group(by_position(), "test", {.group = group}, {0, 1, 2});
  const std::vector<double> oracle = {5, 5, 3}, measured = {2, 8, 3};
  EXPECT_DOUBLE_EQ(all.metrics.at("noise_ceiling_tau"), metrics::kendall_tau(oracle, measured));
  // Evaluating one of the two does not hide that the other exists: 5 against 3 is the wrong order for 2 against 3.
  EXPECT_DOUBLE_EQ(evaluate_group(by_position(), "test", {.group = group}, {0, 2}).metrics.at("noise_ceiling_tau"),
                   -1.0);
  // Without repeats there is nothing to say.
  EXPECT_FALSE(evaluate_group(by_position(), "test", {.group = testing::tile_group("h", {1, 2, 3})}, {0, 1})
                   .metrics.contains("noise_ceiling_tau"));
}

TEST(OracleRuntimes, KnowsOfEachConfigurationTheMeasurementsThatRan) {
  constexpr double kFailed = std::numeric_limits<double>::infinity();
  auto group = testing::tile_group("g", {1, 1, 1, 2, 2, 3});
  group.runtimes = std::vector<double>{2, kFailed, 8, kFailed, kFailed, 3};
  EXPECT_EQ(oracle_runtimes(group, {0, 1, 3, 5}), (std::vector<double>{5, 5, kFailed, 3}));
}

TEST(ModelScorer, CandidatesOfOneConfigurationAreScoredOnce) {
  auto group = foretime::testing::synthesize_layout_group({40, 3, 60, 2}, "synthetic_repeats");
  std::vector<int64_t> candidates(60);
  std::iota(candidates.begin(), candidates.end(), 0);
  std::reverse(candidates.begin(), candidates.end());
  const auto hashes = data::configuration_hashes(group);
  const auto distinct = static_cast<int64_t>(std::set<uint64_t>(hashes.begin(), hashes.end()).size());
  ASSERT_LT(distinct, 60) << "some candidate must repeat another";

  torch::manual_seed(4);
  configs::ModelSettings settings;
  settings.hidden = 6;
  const std::shared_ptr<models::CostModel> model =
      models::make_model(settings, {group.kind, group.graphs.feature_count, group.graphs.node_type_count});
  int64_t scored = 0;
  const auto scorer =
      model_scorer(model, {}, configs::LossSettings{}, torch::kCPU, 200, [&](int64_t count) { scored += count; });
  const auto all = scorer({.group = group}, candidates).scores;
  EXPECT_EQ(scored, distinct);
  ASSERT_EQ(all.size(), candidates.size());
  const auto source = plans::make_plan_source(group, model->plan_request());
  EXPECT_EQ(scorer({.group = group, .plan_source = source}, candidates).scores, all);
  std::set<double> seen;
  for (size_t i = 0; i < candidates.size(); ++i) {
    EXPECT_NEAR(scorer({.group = group}, {candidates[i]}).scores.at(0), all[i], 1e-5) << candidates[i];
    seen.insert(all[i]);
  }
  EXPECT_GT(static_cast<int64_t>(seen.size()), distinct / 2) << "scores must tell candidates apart";
}

TEST(EvaluateGroup, TheConstantBaselineHasNoRanking) {
  const auto group = testing::tile_group("g", {1, 2, 3});
  const auto result = evaluate_group(constant_scorer(3.0), "test", {.group = group}, {0, 1, 2});
  EXPECT_DOUBLE_EQ(result.metrics.at("kendall_tau"), 0.0);
  EXPECT_NEAR(result.metrics.at("mae"), (1.0 + 0.0 + 1.0) / 3, 1e-12);
}

}  // namespace
}  // namespace foretime::worker
