#include "worker/group_store.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "data/error.h"
#include "tests/worker/groups.h"

namespace foretime::worker {
namespace {

LoadedGroup divided(const configs::Settings& settings, coordinator::Role role, std::vector<float> values,
                    const EvalIndices& official = {}) {
  LoadedGroup loaded;
  loaded.group = testing::tile_group("g", values);
  divide_candidates(loaded, role, settings, official);
  return loaded;
}

/// 300 candidates of 100 distinct configurations, three of each.
std::vector<float> repeated() {
  std::vector<float> values;
  for (int i = 0; i < 300; ++i) values.push_back(static_cast<float>(i % 100));
  return values;
}

TEST(DivideCandidates, HoldsOutWholeConfigurations) {
  configs::Settings settings;
  settings.data.holdout = 0.3;
  settings.data.max_eval_candidates = 0;
  const auto values = repeated();
  const auto loaded = divided(settings, coordinator::Role::train, values);
  EXPECT_EQ(loaded.train.size() + loaded.evaluated.size(), values.size());
  std::set<float> trained, held;
  for (const int64_t c : loaded.train) trained.insert(values[static_cast<size_t>(c)]);
  for (const int64_t c : loaded.evaluated) held.insert(values[static_cast<size_t>(c)]);
  for (const float value : held) EXPECT_FALSE(trained.contains(value)) << "a duplicate leaked into training";
  EXPECT_NEAR(static_cast<double>(held.size()), 30, 15);
}

TEST(DivideCandidates, IsAPureFunctionOfTheSeed) {
  configs::Settings settings;
  settings.data.holdout = 0.5;
  const auto a = divided(settings, coordinator::Role::train, repeated()),
             b = divided(settings, coordinator::Role::train, repeated());
  EXPECT_EQ(a.train, b.train);
  EXPECT_EQ(a.evaluated, b.evaluated);
  settings.trainer.seed = 2;
  EXPECT_NE(divided(settings, coordinator::Role::train, repeated()).train, a.train);
}

TEST(DivideCandidates, TheTrainFractionLeavesTheHoldoutAlone) {
  configs::Settings settings;
  settings.data.holdout = 0.3;
  const auto all = divided(settings, coordinator::Role::train, repeated());
  settings.data.train_fraction = 0.25;
  const auto some = divided(settings, coordinator::Role::train, repeated());
  EXPECT_EQ(some.evaluated, all.evaluated);
  EXPECT_LT(some.train.size(), all.train.size() / 2);
  EXPECT_TRUE(std::includes(all.train.begin(), all.train.end(), some.train.begin(), some.train.end()));
}

TEST(DivideCandidates, OfficialIndicesComeFirst) {
  configs::Settings settings;
  const EvalIndices official = {{"g", {5, 3, 3}}};
  EXPECT_EQ(divided(settings, coordinator::Role::valid, repeated(), official).evaluated,
            (std::vector<int64_t>{5, 3, 3}));
  EXPECT_THROW(divided(settings, coordinator::Role::valid, repeated(), {{"g", {300}}}), data::DataError);
}

TEST(DivideCandidates, LimitsWhatIsEvaluated) {
  configs::Settings settings;
  settings.data.max_eval_candidates = 10;
  const auto loaded = divided(settings, coordinator::Role::test, repeated());
  EXPECT_EQ(loaded.evaluated.size(), 10U);
  EXPECT_TRUE(std::is_sorted(loaded.evaluated.begin(), loaded.evaluated.end()));
  EXPECT_EQ(std::set<int64_t>(loaded.evaluated.begin(), loaded.evaluated.end()).size(), 10U);
}

TEST(DivideCandidates, RanksSpeedsFromZeroToOne) {
  const auto loaded = divided({}, coordinator::Role::train, {5, 1, 3});
  EXPECT_EQ(loaded.speed_rank, (std::vector<double>{1.0, 0.0, 0.5}));
}

TEST(DivideCandidates, RefusesTrainingDataWithoutLabels) {
  LoadedGroup loaded;
  loaded.group = testing::tile_group("g", {1, 2});
  loaded.group.runtimes = std::vector<double>{0, 0};
  EXPECT_THROW(divide_candidates(loaded, coordinator::Role::train, {}, {}), data::DataError);
}

}  // namespace
}  // namespace foretime::worker
