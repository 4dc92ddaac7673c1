#include "worker/evaluation/tie_thresholds.h"

#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "models/metrics/metrics.h"
#include "models/metrics/tie_thresholds.h"
#include "tests/support/scratch.h"
#include "tests/worker/samples.h"
#include "tests/worker/segments/segmented.h"
#include "tests/worker/training_run.h"
#include "worker/state/training_state.h"

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

nlohmann::json levels_of(const testing::TrainingRun& run) {
  return nlohmann::json::parse(run.files.at("state.json")).value("levels", nlohmann::json());
}

TEST(TieThresholds, OfAGraphAreFoundAgainWithOtherCandidates) {
  const auto group = data::synthesize_layout_group({30, 6, 20, 3}, "synthetic_levels");
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
            data::graph_fingerprint(data::synthesize_layout_group({30, 6, 20, 4}, "synthetic_levels")));
}

TEST(TieThresholds, MembersOfOneOpinionGiveItsScoresWhateverTheirScale) {
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

TEST(TieThresholds, AreSavedWithTheModelAndCountInKendallsTau) {
  const foretime::testing::Scratch scratch;
  auto settings = level_settings(scratch.path() / "data");
  const auto run = testing::train(settings, 1, scratch.path() / "run");
  EXPECT_FALSE(levels_of(run).empty());
  EXPECT_TRUE(run.metrics.contains("holdout/kendall_tau_of_scores"));
  EXPECT_NE(run.metrics.at("holdout/kendall_tau_of_scores"), run.metrics.at("holdout/kendall_tau"));
  settings.trainer.tie_threshold_candidates = 0;
  const auto without = testing::train(settings, 1, scratch.path() / "without");
  EXPECT_TRUE(levels_of(without).empty());
  EXPECT_FALSE(without.metrics.contains("holdout/kendall_tau_of_scores"));
  EXPECT_EQ(without.metrics.at("holdout/kendall_tau"), run.metrics.at("holdout/kendall_tau_of_scores"));
}

TEST(TieThresholds, ComeBackFromACheckpoint) {
  const foretime::testing::Scratch scratch;
  const auto settings = level_settings(scratch.path() / "data");
  const auto saved = levels_of(testing::train(settings, 1, scratch.path() / "run"));
  const coordinator::CheckpointStore store(scratch.path() / "run" / "checkpoints");
  const auto read = read_state(store.read(store.steps().back())).tie_thresholds;
  ASSERT_EQ(read.size(), saved.size());
  ASSERT_GT(read.size(), 1u);
  for (const auto& [graph, thresholds] : read)
    EXPECT_EQ(thresholds, saved.at(fmt::format("{:016x}", graph)).get<std::vector<double>>());
}

TEST(TieThresholds, AreTheSameOnAnyNumberOfRanks) {
  const foretime::testing::Scratch scratch;
  auto settings = level_settings(scratch.path() / "data");
  settings.trainer.steps = 0;  // the weights that all begin with
  settings.trainer.eval_every = 0;
  const auto one = testing::train(settings, 1, scratch.path() / "one"),
             two = testing::train(settings, 2, scratch.path() / "two");
  ASSERT_FALSE(levels_of(one).empty());
  EXPECT_EQ(levels_of(one), levels_of(two));
}

}  // namespace
}  // namespace foretime::worker
