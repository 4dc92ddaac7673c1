#include <functional>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "models/safetensors.h"
#include "sharding/cost.h"
#include "tests/support/synthetic_graph.h"
#include "tests/worker/segments/heap_peak.h"
#include "tests/worker/segments/segmented.h"
#include "tests/worker/training_run.h"
#include "worker/evaluation/scoring.h"
#include "worker/step/trainer.h"

/// Whole runs with segments, on one rank and on several.
namespace foretime::worker {
namespace {

using SegmentRun = testing::RunTest;

/// The larger graph has its 3 segments in 3 parts; draws of a group lie in more than one lane.
configs::Settings spanning_settings(const std::filesystem::path& folder) {
  auto settings = testing::segmented_settings(folder);
  const auto header = sharding::make_dataset_index(settings).entries.front().header;
  const auto bytes = sharding::estimate_resident_bytes(header, settings);
  settings.shard.max_rank_bytes = static_cast<int64_t>(bytes.whole + bytes.sample + 0.45 * bytes.divided);
  settings.sampler.groups_per_batch = 4;
  settings.segments.refresh_interval = 2;
  settings.checkpoint.keep_last = 20;
  return settings;
}

void expect_close(const std::string& a, const std::string& b, double tolerance = 2e-4) {
  const auto left = models::parse_safetensors(a, "a"), right = models::parse_safetensors(b, "b");
  ASSERT_EQ(left.tensors.size(), right.tensors.size());
  for (const auto& [name, tensor] : left.tensors) {
    const auto& other = right.tensors.at(name);
    ASSERT_EQ(tensor.sizes(), other.sizes()) << name;
    if (tensor.numel() == 0) continue;
    const double most = (tensor.to(torch::kDouble) - other.to(torch::kDouble)).abs().max().item<double>();
    EXPECT_LE(most, tolerance * std::max(1.0, other.to(torch::kDouble).abs().max().item<double>())) << name;
  }
}

TEST_F(SegmentRun, GraphsOfOneSegmentTrainBitForBit) {
  auto settings = testing::segmented_settings(folder("data"));
  settings.sampler.max_segment_nodes = 0;
  settings.sampler.resident_plans = configs::ResidentPlans::never;  // segments are drawn, and sums have their order
  const auto plain = train(settings, 1, "plain");
  for (const auto* stale : {"scores", "pools", "full_forward"}) {
    settings.sampler.max_segment_nodes = 1000;
    settings.segments.stale = configs::choice_named<configs::Stale>(stale).value();
    const auto cut = train(settings, 1, stale);
    EXPECT_EQ(cut.weights(), plain.weights()) << stale;
    EXPECT_EQ(cut.files.at("optimizer.safetensors"), plain.files.at("optimizer.safetensors")) << stale;
    EXPECT_EQ(cut.metrics, plain.metrics) << stale;
  }
}

TEST_F(SegmentRun, CutGraphsTrainOtherwise) {
  auto settings = testing::segmented_settings(folder("data"));
  std::set<std::string> seen;
  for (const auto* stale : {"scores", "pools", "full_forward", "none"}) {
    settings.segments.stale = configs::choice_named<configs::Stale>(stale).value();
    const auto run = train(settings, 1, stale);
    EXPECT_TRUE(seen.insert(run.weights()).second) << stale;
    EXPECT_EQ(run.files.contains("history.safetensors"), *stale == 's' || *stale == 'p') << stale;
  }
  settings.segments.method = configs::SegmentMethod::metis;
  EXPECT_TRUE(seen.insert(train(settings, 1, "metis").weights()).second);
}

TEST_F(SegmentRun, ResumingGivesTheBytesOfAStraightRun) {
  auto settings = spanning_settings(folder("data"));
  settings.trainer.steps = 9;
  settings.segments.finetune_steps = 3;
  settings.checkpoint.every_steps = 1;
  struct Case {
    std::string stale;
    int ranks;
    int64_t history_bytes;
  };
  // 4,000 bytes are three blocks: most of what was written is forgotten, and resuming must forget the same.
  for (const auto& [stale, ranks, bytes] :
       {Case{"scores", 1, 1 << 20}, Case{"scores", 2, 1 << 20}, Case{"pools", 1, 4000}}) {
    settings.segments.stale = configs::choice_named<configs::Stale>(stale).value();
    settings.segments.history_bytes = bytes;
    // Ranks that are threads share LibTorch's generator.
    settings.model.dropout = ranks == 1 ? 0.2 : 0.0;
    const auto name = stale + std::to_string(ranks);
    const auto straight = train(settings, ranks, name);
    // Step 5 has rows that wait for the exchange of step 6, step 7 lies in the head's part of the run.
    for (const int64_t step : {5, 7}) {
      const auto resumed = name + " from step " + std::to_string(step);
      leave_behind(name, resumed, step);
      EXPECT_EQ(train(settings, ranks, resumed).files, straight.files) << resumed;
    }
  }
}

TEST_F(SegmentRun, RanksAgreeWithOneRank) {
  auto settings = spanning_settings(folder("data"));
  const auto dataset = sharding::make_dataset_index(settings);
  ASSERT_EQ(dataset.entries.front().parts, 3);
  const auto plan = sharding::make_shard_plan(dataset, settings, 2);
  for (const int rank : {0, 1}) ASSERT_EQ(plan.entries_of(rank).front(), 0) << "the graph must span both ranks";
  settings.trainer.steps = 10;
  for (const auto* stale : {"scores", "pools"}) {
    settings.segments.stale = configs::choice_named<configs::Stale>(stale).value();
    const auto one = train(settings, 1, stale);
    for (const int ranks : {2, 4}) {
      const auto many = train(settings, ranks, stale + std::to_string(ranks));
      for (const auto* file : {"model.safetensors", "history.safetensors"})
        expect_close(many.files.at(file), one.files.at(file));
      ASSERT_EQ(many.metrics.size(), one.metrics.size());
      for (const auto& [name, value] : one.metrics) EXPECT_NEAR(many.metrics.at(name), value, 0.02) << stale << name;
    }
  }
}

TEST_F(SegmentRun, ResumesOnAnotherNumberOfRanks) {
  auto settings = spanning_settings(folder("data"));
  settings.trainer.steps = 9;
  settings.checkpoint.every_steps = 1;
  const auto one = train(settings, 1, "one");
  for (const int64_t step : {3, 6}) {
    leave_behind("one", "two", step);
    const auto two = train(settings, 2, "two");
    for (const auto* file : {"model.safetensors", "history.safetensors"})
      expect_close(two.files.at(file), one.files.at(file));
    std::filesystem::remove_all(folder("two"));
  }
}

TEST_F(SegmentRun, TheLastStepsMoveTheHeadAlone) {
  auto settings = testing::segmented_settings(folder("data"));
  settings.trainer.steps = 6;
  settings.segments.finetune_steps = 2;
  settings.checkpoint.every_steps = 1;
  settings.checkpoint.keep_last = 20;
  settings.optimizer.weight_decay = 0.01;
  for (const int ranks : {1, 2}) {
    const auto run = std::to_string(ranks);
    const auto after = train(settings, ranks, run).tensors();
    for (const auto& [name, tensor] : tensors_at(run, 4))
      EXPECT_EQ(torch::equal(tensor, after.at(name)), !is_head_parameter(name)) << name;
  }
}

TEST_F(SegmentRun, PeakMemoryIsThatOfASegment) {
  if (foretime::testing::heap_growth([] {}) < 0) GTEST_SKIP() << "a sanitizer's allocator is not counted";
  auto settings = testing::segmented_settings(folder("small"));
  settings.model.hidden = 32;
  settings.model.sharing =
      configs::StateSharing::none;  // activations of all nodes and candidates: the most there can be
  settings.sampler.max_segment_nodes = 250;
  settings.data.train = {"synthetic_graph.foretime"};
  std::vector<int64_t> candidates(48);
  std::iota(candidates.begin(), candidates.end(), 0);
  const auto growth = [&](int64_t nodes, int64_t max_segment_nodes, const std::string& name) {
    settings.data.root = folder(name).string();
    std::filesystem::create_directories(settings.data.root);
    foretime::testing::write_synthetic(folder(name) / "synthetic_graph.foretime",
                                       {.nodes = nodes, .configurable = 60, .candidates = 64, .seed = 1});
    settings.sampler.max_segment_nodes = max_segment_nodes;
    testing::SegmentedRun run(settings);
    run.score({run.draw(0, candidates, 0)}).sum().backward();  // what stays: gradients, caches
    const auto scorer = scorer_for(run.model, {.settings = run.settings, .max_states = 20000});
    return std::pair(
        foretime::testing::heap_growth([&] { run.score({run.draw(0, candidates, 0, 2, 1)}).sum().backward(); }),
        foretime::testing::heap_growth([&] { scorer(run.store.get(0), candidates); }));
  };
  const auto small = growth(2000, 250, "small"), large = growth(8000, 250, "large");
  const auto whole = growth(2000, 2000, "whole");
  for (const auto& [name, found] : {std::pair("small", small), std::pair("large", large), std::pair("whole", whole)}) {
    RecordProperty(std::string(name) + "_training_bytes", std::to_string(found.first));
    RecordProperty(std::string(name) + "_evaluation_bytes", std::to_string(found.second));
  }
  constexpr int64_t kNoise = 8 << 20;
  EXPECT_LT(large.first, small.first * 3 / 2 + kNoise) << "training";
  EXPECT_LT(large.second, small.second * 3 / 2 + kNoise) << "evaluation";
  EXPECT_GT(whole.first, small.first * 3) << "whole graphs take more, so the measurement can fail";
}

}  // namespace
}  // namespace foretime::worker
