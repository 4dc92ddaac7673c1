#include "worker/store/cross_fitting.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "models/losses/losses.h"
#include "tests/support/scratch.h"
#include "tests/worker/segments/segmented.h"
#include "tests/worker/training_run.h"
#include "worker/batches/batch.h"

namespace foretime::worker {
namespace {

configs::Settings folded_settings(const std::filesystem::path& data) {
  auto settings = testing::segmented_settings(data);
  settings.sampler.max_segment_nodes = 0;
  settings.model.ensemble_size = 3;
  settings.data.holdout = 0.3;
  settings.trainer.steps = 6;
  settings.trainer.tie_threshold_candidates = 20;
  settings.trainer.cross_fitting = true;
  return settings;
}

TEST(CrossFitting, ConfigurationsAreSharedOut) {
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

TEST(CrossFitting, AMemberLearnsFromOthersFoldsOnly) {
  configs::LossSettings settings;
  settings.type = configs::LossType::pairwise_logistic;
  Batch batch;
  batch.targets = torch::tensor({3.0, 1.0, 2.0, 5.0, 4.0, 6.0, 7.0}, torch::kDouble);
  batch.plan.group_ptr = {0, 4, 5, 7};
  batch.weights = {0.5, 0.25, 0.25};
  batch.folds = {0, 1, 2, 1, 0, 2, 2};
  auto scores = torch::tensor({0.3, -0.2, 0.5, 0.1, 0.9, -0.4, 0.2}, torch::kDouble).requires_grad_(true);

  // Member 0: candidates 1, 2, 3 of the first group, none of the second, both of the third.
  const auto of = [&](const std::vector<int64_t>& ids) {
    return models::group_loss(settings, scores.index_select(0, torch::tensor(ids)),
                              batch.targets.index_select(0, torch::tensor(ids)));
  };
  const auto expected = 0.5 * of({1, 2, 3}) + 0.25 * of({5, 6});
  const auto loss = member_loss(settings, scores, 0, batch);
  EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-12);
  loss.backward();
  EXPECT_EQ(scores.grad()[0].item<double>(), 0);
  EXPECT_EQ(scores.grad()[4].item<double>(), 0);
  EXPECT_NE(scores.grad()[1].item<double>(), 0);

  batch.folds.clear();
  const auto all = 0.5 * of({0, 1, 2, 3}) + 0.25 * of({4}) + 0.25 * of({5, 6});
  EXPECT_NEAR(member_loss(settings, scores, 0, batch).item<double>(), all.item<double>(), 1e-12);
}

TEST(CrossFitting, RanksAgree) {
  const foretime::testing::Scratch scratch;
  const auto settings = folded_settings(scratch.path() / "data");
  const auto one = testing::train(settings, 1, scratch.path() / "one"),
             two = testing::train(settings, 2, scratch.path() / "two");
  EXPECT_LE(testing::largest_difference(one.files.at("model.safetensors"), two.files.at("model.safetensors")), 1e-5);
  EXPECT_FALSE(nlohmann::json::parse(one.files.at("state.json")).value("levels", nlohmann::json()).empty());
  auto apart = settings;
  apart.trainer.cross_fitting = false;
  const auto without = testing::train(apart, 1, scratch.path() / "without");
  EXPECT_NE(one.files.at("model.safetensors"), without.files.at("model.safetensors"));
}

TEST(CrossFitting, LevelsComeFromUnseenCandidates) {
  const foretime::testing::Scratch scratch;
  auto settings = folded_settings(scratch.path() / "data");
  settings.trainer.steps = 0;  // the same weights: only the scores that levels are found from differ
  const auto levels = [&](bool folds) {
    settings.trainer.cross_fitting = folds;
    const auto run = testing::train(settings, 1, scratch.path() / (folds ? "folds" : "all"));
    return nlohmann::json::parse(run.files.at("state.json")).value("levels", nlohmann::json());
  };
  EXPECT_NE(levels(true), levels(false));
}

}  // namespace
}  // namespace foretime::worker
