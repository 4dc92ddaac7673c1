#include "worker/store/group_store.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "base/error.h"
#include "data/dataset/pack.h"
#include "data/files/packed.h"
#include "plans/symbolic_plan.h"
#include "tests/support/paths.h"
#include "tests/support/scratch.h"
#include "tests/worker/samples.h"

namespace foretime::worker {
namespace {

LoadedGroup divided(const configs::Settings& settings, sharding::Role role, std::vector<float> values,
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
  const auto loaded = divided(settings, sharding::Role::train, values);
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
  const auto a = divided(settings, sharding::Role::train, repeated()),
             b = divided(settings, sharding::Role::train, repeated());
  EXPECT_EQ(a.train, b.train);
  EXPECT_EQ(a.evaluated, b.evaluated);
  settings.trainer.seed = 2;
  EXPECT_NE(divided(settings, sharding::Role::train, repeated()).train, a.train);
}

TEST(DivideCandidates, TheTrainFractionLeavesTheHoldoutAlone) {
  configs::Settings settings;
  settings.data.holdout = 0.3;
  const auto all = divided(settings, sharding::Role::train, repeated());
  settings.data.train_fraction = 0.25;
  const auto some = divided(settings, sharding::Role::train, repeated());
  EXPECT_EQ(some.evaluated, all.evaluated);
  EXPECT_LT(some.train.size(), all.train.size() / 2);
  EXPECT_TRUE(std::includes(all.train.begin(), all.train.end(), some.train.begin(), some.train.end()));
}

TEST(DivideCandidates, OfficialIndicesComeFirst) {
  configs::Settings settings;
  const EvalIndices official = {{"g", {5, 3, 3}}};
  EXPECT_EQ(divided(settings, sharding::Role::valid, repeated(), official).evaluated, (std::vector<int64_t>{5, 3, 3}));
  EXPECT_THROW(divided(settings, sharding::Role::valid, repeated(), {{"g", {300}}}), DataError);
}

TEST(DivideCandidates, LimitsWhatIsEvaluated) {
  configs::Settings settings;
  settings.data.max_eval_candidates = 10;
  const auto loaded = divided(settings, sharding::Role::test, repeated());
  EXPECT_EQ(loaded.evaluated.size(), 10U);
  EXPECT_TRUE(std::is_sorted(loaded.evaluated.begin(), loaded.evaluated.end()));
  EXPECT_EQ(std::set<int64_t>(loaded.evaluated.begin(), loaded.evaluated.end()).size(), 10U);
}

TEST(DivideCandidates, UnlabelledGroupsAreRankedAsAWhole) {
  configs::Settings settings;
  settings.data.max_eval_candidates = 10;
  const std::vector<float> none(300, -1.0F);  // run times of 0
  EXPECT_EQ(divided(settings, sharding::Role::test, none).evaluated.size(), none.size());
}

TEST(DivideCandidates, RanksSpeedsFromZeroToOne) {
  configs::Settings settings;
  EXPECT_TRUE(divided(settings, sharding::Role::train, {5, 1, 3}).speed_rank.empty()) << "nobody asks for it";
  settings.sampler.fast_bias = 1;
  const auto loaded = divided(settings, sharding::Role::train, {5, 1, 3});
  EXPECT_EQ(loaded.speed_rank, (std::vector<double>{1.0, 0.0, 0.5}));
}

TEST(DivideCandidates, AConfigurationFailedWhereNoneOfItsMeasurementsRan) {
  constexpr double kFailed = std::numeric_limits<double>::infinity();
  configs::Settings settings;
  settings.data.holdout = 0;
  settings.data.duplicates = configs::Duplicates::mean;
  LoadedGroup loaded;
  loaded.group = testing::tile_group("g", {1, 1, 1, 2, 2, 3});
  loaded.group.runtimes = std::vector<double>{kFailed, 2, 8, kFailed, kFailed, 3};
  divide_candidates(loaded, sharding::Role::train, settings, {});
  EXPECT_EQ(loaded.train, (std::vector<int64_t>{0, 3, 5}));
  EXPECT_EQ(loaded.group.runtimes[0], 5);
  EXPECT_EQ(loaded.group.runtimes[3], kFailed);
  EXPECT_EQ(loaded.group.runtimes[5], 3);
}

TEST(DivideCandidates, DuplicatesAreKeptOrMergedInTrainingAlone) {
  configs::Settings settings;
  settings.data.holdout = 0.3;
  settings.data.max_eval_candidates = 0;
  const auto values = repeated();
  const auto divide = [&](const std::string& duplicates) {
    settings.data.duplicates = configs::choice_named<configs::Duplicates>(duplicates).value();
    LoadedGroup loaded;
    loaded.group = testing::tile_group("g", values);
    std::vector<double> runtimes(values.size());
    for (size_t c = 0; c < values.size(); ++c) runtimes[c] = 1.0 + static_cast<double>(c * c % 997);
    loaded.group.runtimes = runtimes;
    divide_candidates(loaded, sharding::Role::train, settings, {});
    return loaded;
  };
  const auto all = divide("keep"), first = divide("first"), mean = divide("mean");
  std::vector<int64_t> expected;
  for (const int64_t c : all.train) {
    if (c < 100) expected.push_back(c);
  }
  EXPECT_EQ(all.train.size(), 3 * expected.size());
  EXPECT_EQ(first.train, expected);
  EXPECT_EQ(mean.train, expected);
  for (const int64_t c : expected) {
    const auto& measured = all.group.runtimes;
    EXPECT_EQ(first.group.runtimes[c], measured[c]);
    EXPECT_DOUBLE_EQ(mean.group.runtimes[c], (measured[c] + measured[c + 100] + measured[c + 200]) / 3);
  }
  for (const auto* merged : {&first, &mean}) {
    EXPECT_EQ(merged->evaluated, all.evaluated);
    for (const int64_t c : all.evaluated) EXPECT_EQ(merged->group.runtimes[c], all.group.runtimes[c]);
  }
  settings.sampler.fast_bias = 1;
  const auto ranked = divide("mean");
  ASSERT_EQ(ranked.speed_rank.size(), expected.size());
  for (size_t i = 1; i < expected.size(); ++i) {
    EXPECT_EQ(ranked.speed_rank[i] < ranked.speed_rank[i - 1] ||
                  ranked.group.runtimes[expected[i]] >= ranked.group.runtimes[expected[i - 1]],
              true)
        << "ranks are those of the mean run times";
  }
}

TEST(DivideCandidates, RefusesTrainingDataWithoutLabels) {
  LoadedGroup loaded;
  loaded.group = testing::tile_group("g", {1, 2});
  loaded.group.runtimes = std::vector<double>{0, 0};
  EXPECT_THROW(divide_candidates(loaded, sharding::Role::train, {}, {}), DataError);
}

/// Two packed tile groups; the first one's graph is damaged, its summary is not.
class Store : public ::testing::Test {
 protected:
  Store() {
    data::PackedWriter writer(file_);
    writer.add(testing::tile_group("a", {1, 2, 3, 4, 5}));
    writer.add(testing::tile_group("b", {3, 1, 2}));
    writer.finish();
    settings_.data.format = configs::DataFormat::tile;
    settings_.data.train = {file_.string()};
    dataset_ = sharding::make_dataset_index(settings_);
  }
  void damage() {
    std::fstream out(file_, std::ios::in | std::ios::out | std::ios::binary);
    out.seekp(64 + 3);  // in the first array
    out.put(77);
  }

  foretime::testing::Scratch scratch_;
  std::filesystem::path file_ = scratch_.path() / "two.foretime";
  configs::Settings settings_;
  sharding::DatasetIndex dataset_;
};

TEST_F(Store, OpensGroupsAtTheirFirstUse) {
  damage();
  GroupStore store(settings_, dataset_, {0, 1}, {});
  EXPECT_EQ(store.training_part(0).train.size(), 5U) << "a summary needs no graph";
  EXPECT_EQ(store.get(1).train.size(), 3U);
  EXPECT_EQ(&store.get(1), &store.get(1));
  for (int time = 0; time < 2; ++time) EXPECT_THROW(store.get(0), DataError);
}

TEST_F(Store, ReadsAheadAndKeepsFailuresForWhoAsks) {
  damage();
  GroupStore store(settings_, dataset_, {0, 1}, {});
  store.prepare_plans({.layers = 1, .relations = {{}}});
  store.read_ahead({0, 1});
  store.read_ahead({1, 0});
  EXPECT_TRUE(store.get(1).plan_source);
  EXPECT_THROW(store.get(0), DataError);
  EXPECT_TRUE(store.failed());
  EXPECT_THROW(store.check(), DataError);
}

TEST_F(Store, IsOneStoreForManyThreads) {
  GroupStore store(settings_, dataset_, {0, 1}, {});
  store.read_ahead({0, 1});
  std::vector<const LoadedGroup*> seen(8);
  {
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < seen.size(); ++t)
      threads.emplace_back([&, t] { seen[t] = &store.get(static_cast<int64_t>(t % 2)); });
  }
  for (size_t t = 2; t < seen.size(); ++t) EXPECT_EQ(seen[t], seen[t - 2]);
}

TEST_F(Store, KnowsTheSameOfPackedAndOtherFiles) {
  FORETIME_NEEDS_DATA();
  const auto npz = foretime::testing::data_dir() / "tpugraphs/npz/layout/xla/default/train/unet3d.npz";
  const auto listed = data::list_groups({npz.string()}, ".", data::CandidateKind::layout);
  data::PackedWriter writer(file_);
  data::add_file(writer, listed.at(0));
  writer.finish();
  settings_.data.format = configs::DataFormat::layout;
  settings_.data.holdout = 0.2;
  for (const bool log : {false, true}) {
    settings_.model.features.log = log;
    std::vector<TrainingPart> parts;
    std::vector<std::vector<int64_t>> trained, held;
    for (const auto& file : {npz, file_}) {
      settings_.data.train = {file.string()};
      const GroupStore store(settings_, sharding::make_dataset_index(settings_), {0}, {});
      parts.push_back(store.training_part(0));
      trained.push_back(store.get(0).train);
      held.push_back(store.get(0).evaluated);
    }
    EXPECT_EQ(trained[0], trained[1]);
    EXPECT_EQ(held[0], held[1]);
    EXPECT_EQ(parts[0].train, parts[1].train);
    EXPECT_EQ(parts[0].train, trained[0]);
    EXPECT_EQ(parts[0].labels.candidates, parts[1].labels.candidates);
    EXPECT_TRUE(std::ranges::equal(parts[0].labels.runtimes, parts[1].labels.runtimes));
    EXPECT_TRUE(std::ranges::equal(parts[0].features.sums, parts[1].features.sums));
    EXPECT_TRUE(std::ranges::equal(parts[0].features.squares, parts[1].features.squares));
    EXPECT_TRUE(std::ranges::equal(parts[0].features.maxima, parts[1].features.maxima));
  }
}

TEST_F(Store, RefusesOfficialIndicesBeforeItReads) {
  settings_.data.valid = settings_.data.train;
  dataset_ = sharding::make_dataset_index(settings_);
  EXPECT_THROW(GroupStore(settings_, dataset_, {2}, {{"a", {5}}}), DataError);
}

}  // namespace
}  // namespace foretime::worker
