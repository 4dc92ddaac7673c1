#include "metrics/tie_thresholds.h"

#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "metrics/metrics.h"
#include "models/losses/losses.h"
#include "tests/models/losses/group_loss.h"
#include "tests/support/synthetic_graph.h"
#include "tests/worker/samples.h"
#include "tests/worker/segments/segmented.h"
#include "tests/worker/training_run.h"
#include "worker/batches/batch.h"
#include "worker/evaluation/scoring.h"
#include "worker/state/training_state.h"
#include "worker/store/group_store.h"

namespace foretime::worker {
namespace {

/// Small layout groups, with candidates held out of each.
configs::Settings level_settings(const std::filesystem::path& data) {
  auto settings = testing::segmented_settings(data);
  settings.sampler.max_segment_nodes = 0;
  settings.data.holdout = 0.3;
  settings.trainer.steps = 6;
  settings.trainer.eval_every = 3;
  settings.trainer.tie_threshold_candidates = 20;
  return settings;
}

/// Of three members, each of which learns from the folds of the others.
configs::Settings folded_settings(const std::filesystem::path& data) {
  auto settings = level_settings(data);
  settings.trainer.eval_every = 0;
  settings.model.ensemble_size = 3;
  settings.trainer.cross_fitting = true;
  return settings;
}

using TieThresholdsTest = testing::RunTest;
using CrossFittingTest = testing::RunTest;

TEST_F(TieThresholdsTest, OfAGraphAreFoundAgainWithOtherCandidates) {
  const auto group = foretime::testing::synthesize_layout_group({30, 6, 20, 3}, "synthetic_levels");
  LoadedGroup loaded{.group = group};
  const Scorer scorer = [](const LoadedGroup&, const std::vector<int64_t>& candidates) {
    Scores scores;
    for (const int64_t c : candidates) scores.scores.push_back(static_cast<double>(c));
    return scores;
  };
  const std::vector<double> thresholds = {3.5, 10};
  const auto found = with_ties(scorer, {{data::graph_fingerprint(group), thresholds}})(loaded, {2, 10, 4});
  EXPECT_EQ(found.levels, (std::vector<int64_t>{0, 2, 1}));
  EXPECT_TRUE(with_ties(scorer, {{data::graph_fingerprint(group) + 1, thresholds}})(loaded, {2}).levels.empty());
  EXPECT_NE(data::graph_fingerprint(group),
            data::graph_fingerprint(foretime::testing::synthesize_layout_group({30, 6, 20, 4}, "synthetic_levels")));
}

TEST_F(TieThresholdsTest, MembersOfOneOpinionGiveItsScoresWhateverTheirScale) {
  LoadedGroup loaded;
  std::vector<int64_t> candidates;
  for (int64_t c = 0; c < 30; ++c) {
    candidates.push_back(c);
    loaded.folds.push_back(static_cast<uint8_t>(c * 7 % 3));
  }
  const auto member = [](double offset, double scale) -> Scorer {
    return [=](const LoadedGroup&, const std::vector<int64_t>& ids) {
      Scores scores;
      for (const int64_t c : ids) scores.scores.push_back(offset + scale * std::sin(static_cast<double>(c)));
      return scores;
    };
  };
  const auto found = out_of_fold_scores({member(5, 1), member(-100, 2), member(0.5, 3)}, loaded, candidates);
  const auto mean = member((5 - 100 + 0.5) / 3, 2)(loaded, candidates).scores;
  for (size_t c = 0; c < found.size(); ++c) EXPECT_NEAR(found[c], mean[c], 1e-9) << "candidate " << c;
  const auto alone = member(5, 1);
  EXPECT_EQ(out_of_fold_scores({alone}, loaded, candidates), alone(loaded, candidates).scores);
}

TEST_F(TieThresholdsTest, AreSavedWithTheModelAndCountInKendallsTau) {
  auto settings = level_settings(folder("data"));
  const auto run = train(settings, 1, "run");
  EXPECT_FALSE(run.levels().empty());
  EXPECT_TRUE(run.metrics.contains("holdout/kendall_tau_of_scores"));
  EXPECT_NE(run.metrics.at("holdout/kendall_tau_of_scores"), run.metrics.at("holdout/kendall_tau"));
  settings.trainer.tie_threshold_candidates = 0;
  const auto without = train(settings, 1, "without");
  EXPECT_TRUE(without.levels().empty());
  EXPECT_FALSE(without.metrics.contains("holdout/kendall_tau_of_scores"));
  EXPECT_EQ(without.metrics.at("holdout/kendall_tau"), run.metrics.at("holdout/kendall_tau_of_scores"));
}

TEST_F(TieThresholdsTest, ComeBackFromACheckpoint) {
  const auto settings = level_settings(folder("data"));
  const auto saved = train(settings, 1, "run").levels();
  const auto store = checkpoints("run");
  const auto read = read_state(store.read(store.steps().back())).tie_thresholds;
  ASSERT_EQ(read.size(), saved.size());
  ASSERT_GT(read.size(), 1u);
  for (const auto& [graph, thresholds] : read)
    EXPECT_EQ(thresholds, saved.at(fmt::format("{:016x}", graph)).get<std::vector<double>>());
}

TEST_F(TieThresholdsTest, AreTheSameOnAnyNumberOfRanks) {
  auto settings = level_settings(folder("data"));
  settings.trainer.steps = 0;  // the weights that all begin with
  settings.trainer.eval_every = 0;
  const auto one = train(settings, 1, "one"), two = train(settings, 2, "two");
  ASSERT_FALSE(one.levels().empty());
  EXPECT_EQ(one.levels(), two.levels());
}

TEST_F(CrossFittingTest, ConfigurationsAreSharedOut) {
  std::vector<uint64_t> configurations;
  for (uint64_t i = 0; i < 300; ++i) configurations.push_back(i / 2 * 0x9e3779b97f4a7c15);
  const auto folds = folds_of(configurations, 3, 7);
  std::vector<int> counts(3);
  for (size_t i = 0; i < folds.size(); ++i) {
    ++counts.at(folds[i]);
    EXPECT_EQ(folds[i], folds[i / 2 * 2]) << "one configuration, candidate " << i;
  }
  for (const int count : counts) EXPECT_GT(count, 60);
  EXPECT_EQ(folds, folds_of(configurations, 3, 7));
  EXPECT_NE(folds, folds_of(configurations, 3, 8));
}

TEST_F(CrossFittingTest, AMemberLearnsFromOthersFoldsOnly) {
  configs::LossSettings settings;
  settings.type = configs::LossType::pairwise_logistic;
  Batch batch;
  batch.targets = {3.0, 1.0, 2.0, 5.0, 4.0, 6.0, 7.0};
  const auto targets = torch::tensor(batch.targets, torch::kDouble);
  batch.plan.group_ptr = {0, 4, 5, 7};
  batch.weights = {0.5, 0.25, 0.25};
  batch.folds = {0, 1, 2, 1, 0, 2, 2};
  auto scores = torch::tensor({0.3, -0.2, 0.5, 0.1, 0.9, -0.4, 0.2}, torch::kDouble).requires_grad_(true);

  // Member 0: candidates 1, 2, 3 of the first group, none of the second, both of the third.
  const auto of = [&](const std::vector<int64_t>& ids) {
    return models::group_loss(settings, scores.index_select(0, torch::tensor(ids)),
                              targets.index_select(0, torch::tensor(ids)));
  };
  const auto prepare = [&] {
    const LossForm form{settings, /*ensemble_members=*/3};
    gpu::Arena arena(torch::kCPU, max_loss_bytes(form, batch));
    batch.losses = losses_of(form, batch, torch::kDouble, arena);
  };
  prepare();
  const auto expected = 0.5 * of({1, 2, 3}) + 0.25 * of({5, 6});
  const auto loss = member_loss(settings, scores, 0, batch);
  EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-12);
  loss.backward();
  EXPECT_EQ(scores.grad()[0].item<double>(), 0);
  EXPECT_EQ(scores.grad()[4].item<double>(), 0);
  EXPECT_NE(scores.grad()[1].item<double>(), 0);

  batch.folds.clear();
  prepare();
  const auto all = 0.5 * of({0, 1, 2, 3}) + 0.25 * of({4}) + 0.25 * of({5, 6});
  EXPECT_NEAR(member_loss(settings, scores, 0, batch).item<double>(), all.item<double>(), 1e-12);
}

TEST_F(CrossFittingTest, RanksAgree) {
  const auto settings = folded_settings(folder("data"));
  const auto one = train(settings, 1, "one"), two = train(settings, 2, "two");
  EXPECT_LE(testing::largest_difference(one, two), 1e-5);
  EXPECT_FALSE(one.levels().empty());
  auto apart = settings;
  apart.trainer.cross_fitting = false;
  const auto without = train(apart, 1, "without");
  EXPECT_NE(one.weights(), without.weights());
}

TEST_F(CrossFittingTest, LevelsComeFromUnseenCandidates) {
  auto settings = folded_settings(folder("data"));
  settings.trainer.steps = 0;  // the same weights: only the scores that levels are found from differ
  const auto levels = [&](bool folds) {
    settings.trainer.cross_fitting = folds;
    return train(settings, 1, folds ? "folds" : "all").levels();
  };
  EXPECT_NE(levels(true), levels(false));
}

}  // namespace
}  // namespace foretime::worker
