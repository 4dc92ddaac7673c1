#include <numeric>

#include <gtest/gtest.h>

#include "coordinator/checkpoint_store.h"
#include "data/dataset/pack.h"
#include "data/files/packed.h"
#include "data/graphs/pruning.h"
#include "models/safetensors.h"
#include "plans/symbolic_plan.h"
#include "tests/support/synthetic_graph.h"
#include "tests/support/thread_group.h"
#include "tests/support/values.h"
#include "tests/worker/segments/segmented.h"
#include "tests/worker/training_run.h"
#include "worker/evaluation/evaluation_run.h"
#include "worker/evaluation/scoring.h"

/// Runs on graphs without their far nodes, and on training candidates without their duplicates.
namespace foretime::worker {
namespace {

using PrunedRun = testing::RunTest;
using PrunedStore = testing::RunTest;
using PrunedScores = testing::RunTest;
using foretime::testing::values;

/// Whole synthetic graphs, of which a few hops leave a part, as .npz and packed.
configs::Settings pruned_settings(const std::filesystem::path& folder, int64_t hops) {
  auto settings = testing::segmented_settings(folder);
  foretime::testing::write_synthetic(folder / "synthetic_a.npz",
                                     {.nodes = 90, .configurable = 6, .candidates = 60, .seed = 1});
  foretime::testing::write_synthetic(folder / "synthetic_b.npz",
                                     {.nodes = 50, .configurable = 4, .candidates = 60, .seed = 2});
  for (const std::string name : {"synthetic_a", "synthetic_b"}) {
    data::PackedWriter writer(folder / (name + ".foretime"));
    for (const auto& header : data::list_groups({name + ".npz"}, folder, data::CandidateKind::layout))
      data::add_file(writer, header);
    writer.finish();
  }
  settings.sampler.max_segment_nodes = 0;
  settings.data.prune_hops = hops;
  return settings;
}

TEST_F(PrunedStore, OpensWhatIsLeftAndSumsUpAll) {
  auto settings = pruned_settings(scratch_.path(), 2);
  const testing::RunParts packed(settings, 1);
  const auto whole = data::load_group(packed.dataset.entries[0].header);
  const auto& opened = packed.store.get(0).group;
  EXPECT_LT(opened.graphs.nodes(), whole.graphs.nodes());
  EXPECT_EQ(opened.graphs.nodes(), data::pruned_group(whole, 2).graphs.nodes());
  // Transforms are fitted to all nodes, from a summary as from the file itself.
  settings.data.train = {"synthetic_a.npz"};
  const testing::RunParts npz(settings, 1);
  EXPECT_EQ(npz.store.get(0).group.graphs.nodes(), opened.graphs.nodes());
  const auto from_npz = npz.store.training_part(0).features, from_packed = packed.store.training_part(0).features;
  EXPECT_EQ(from_npz.rows, 90);
  EXPECT_EQ(from_packed.rows, 90);
  EXPECT_EQ(values(from_npz.maxima), values(from_packed.maxima));
  EXPECT_EQ(values(from_npz.sums), values(from_packed.sums));
}

TEST_F(PrunedStore, SegmentsAreThoseOfWhatIsLeft) {
  auto settings = pruned_settings(scratch_.path(), 2);
  settings.sampler.max_segment_nodes = 12;
  const testing::RunParts run(settings, 1);
  const auto& loaded = run.store.get(0);
  ASSERT_TRUE(loaded.segments);
  EXPECT_EQ(static_cast<int64_t>(loaded.segments->nodes.size()), loaded.group.graphs.nodes());
}

TEST_F(PrunedScores, AreThoseOfTheWholeGraphWhereOnlyConfigurableNodesAreRead) {
  const auto settings = pruned_settings(scratch_.path(), data::kNoPruning);
  const auto group = data::load_group(sharding::make_dataset_index(settings).entries[0].header);
  std::vector<int64_t> all(static_cast<size_t>(group.candidates));
  std::iota(all.begin(), all.end(), 0);
  for (const auto* type : {"residual_gcn", "sage", "gcn"}) {
    for (const auto* sharing : {"states", "none"}) {
      torch::manual_seed(5);
      auto model_settings = settings.model;
      model_settings.type = configs::choice_named<configs::ModelType>(type).value();
      model_settings.sharing = configs::choice_named<configs::StateSharing>(sharing).value();
      model_settings.layers = 2;
      model_settings.readout = {configs::ReadoutPart::configurable_mean, configs::ReadoutPart::configurable_max};
      const std::shared_ptr<models::CostModel> model = models::make_model(
          model_settings, {.kind = group.kind, .feature_count = group.graphs.feature_count, .node_type_count = 128});
      const auto scorer = model_scorer(model, {}, configs::LossSettings{}, torch::kCPU, 100000);
      const auto whole = scorer({.group = group}, all).scores;
      const auto near = data::pruned_group(group, 3);
      ASSERT_LT(near.graphs.nodes(), group.graphs.nodes());
      const auto scores = scorer({.group = near}, all).scores;
      for (size_t c = 0; c < all.size(); ++c) {
        // Products of other sizes are rounded elsewhere.
        EXPECT_NEAR(scores[c], whole[c], 1e-6 * std::max(1.0, std::abs(whole[c]))) << type << " " << sharing;
      }
      const auto nearest = scorer({.group = data::pruned_group(group, 0)}, all).scores;
      double most = 0;
      for (size_t c = 0; c < all.size(); ++c) most = std::max(most, std::abs(nearest[c] - whole[c]));
      EXPECT_GT(most, 1e-4) << "what is near matters, so the test can fail: " << type;
    }
  }
}

TEST_F(PrunedRun, RanksAgreeWithOneRankAndPackedWithNpz) {
  auto settings = pruned_settings(folder("data"), 2);
  for (const int64_t segment : {0, 12}) {
    settings.sampler.max_segment_nodes = segment;
    const auto name = std::to_string(segment) + "/";
    const auto one = train(settings, 1, name + "1"), two = train(settings, 2, name + "2");
    EXPECT_LE(testing::largest_difference(one, two), 2e-4);
    ASSERT_EQ(one.metrics.size(), two.metrics.size());
    // What was trained is what is evaluated later.
    const auto comm = foretime::testing::make_thread_group(1, std::chrono::seconds(60));
    const auto trained = load_trained_model(coordinator::read_checkpoint(folder(name + "1")));
    auto whole = settings;
    whole.data.prune_hops = data::kNoPruning;  // the model's own counts
    EXPECT_EQ(evaluate_trained(trained, whole, {"holdout", "valid", "test"}, *comm[0], torch::kCPU).metrics,
              one.metrics);
    auto npz = settings;
    npz.data.train = {"synthetic_a.npz", "synthetic_b.npz"};
    EXPECT_TRUE(train(npz, 1, name + "npz").weights() == one.weights());
    EXPECT_FALSE(train(whole, 1, name + "whole").weights() == one.weights());
  }
}

TEST_F(PrunedRun, WithDuplicatesRanksAgreeAndEvaluationStays) {
  auto settings = pruned_settings(folder("data"), data::kNoPruning);
  settings.loss.type = configs::LossType::mse;  // a mean run time changes what is learned
  settings.loss.target = configs::LossTarget::log_runtime;
  settings.data.holdout = 0.4;
  std::map<std::string, testing::TrainingRun> runs;
  std::map<std::string, std::pair<std::vector<int64_t>, std::vector<double>>> evaluated;
  for (const std::string mode : {"keep", "first", "mean"}) {
    settings.data.duplicates = configs::choice_named<configs::Duplicates>(mode).value();
    runs[mode] = train(settings, 1, mode);
    const testing::RunParts run(settings, 1);
    const auto& loaded = run.store.get(0);
    for (const int64_t c : loaded.evaluated) evaluated[mode].second.push_back(loaded.group.runtimes[c]);
    evaluated[mode].first = loaded.evaluated;
    EXPECT_EQ(evaluated[mode], evaluated["keep"]);
    const auto part = run.store.training_part(0);
    EXPECT_EQ(part.train, loaded.train);
    EXPECT_EQ(values(part.labels.runtimes), values(loaded.group.runtimes)) << "a summary says the same";
  }
  EXPECT_FALSE(runs["keep"].weights() == runs["first"].weights());
  EXPECT_FALSE(runs["mean"].weights() == runs["first"].weights());
  EXPECT_LE(testing::largest_difference(train(settings, 2, "two"), runs["mean"]), 1e-5);
}

}  // namespace
}  // namespace foretime::worker
