#include "sharding/cost.h"

#include <cmath>

#include <gtest/gtest.h>

#include "configs/load.h"
#include "tests/support/message_of.h"

namespace foretime::sharding {
namespace {

/// The largest published graph.
data::GroupHeader large_header() {
  data::GroupHeader header;
  header.file = "large.npz";
  header.name = "large";
  header.graphs = 1;
  header.nodes = 43615;
  header.edges = 70000;
  header.candidates = 100040;
  header.configurable = 3143;
  header.feature_count = 140;
  return header;
}

configs::Settings with_segments(int64_t nodes, int64_t limit) {
  configs::Settings settings;
  settings.model.hidden = 8;
  settings.model.readout = {configs::ReadoutPart::mean};
  settings.sampler.max_segment_nodes = nodes;
  settings.shard.max_rank_bytes = limit;
  return settings;
}

std::string refusal(const configs::Settings& settings) {
  return testing::message_of<configs::SettingsError>([&] { count_parts(large_header(), settings); });
}

TEST(ResidentBytes, AreWhatTheHeaderSays) {
  const auto header = large_header();
  const auto states_of = [&](const configs::Settings& settings) {
    double sum = 0;
    for (const double states : estimate_states(header, settings)) sum += states;
    return sum;
  };
  const auto whole = estimate_resident_bytes(header, with_segments(0, 0));
  EXPECT_DOUBLE_EQ(whole.divided, 3143.0 * 100040 + 43615.0 * (4 * 140 + 9) + 24 * 70000.0);
  EXPECT_DOUBLE_EQ(whole.whole, 24.0 * 100040);
  EXPECT_DOUBLE_EQ(whole.sample, 16.0 * 8 * states_of(with_segments(0, 0)));
  const auto cut = estimate_resident_bytes(header, with_segments(1000, 0));
  EXPECT_DOUBLE_EQ(cut.divided - whole.divided, 4.0 * 44 * 100040 * 8);
  EXPECT_DOUBLE_EQ(cut.sample, 16.0 * 8 * states_of(with_segments(1000, 0)));
}

TEST(States, FollowTheCountsOnRealFiles) {
  // Counted on alexnet_train_batch_32 (372 nodes) and 3a0c55… (21,918 nodes), 16 candidates, levels 0 … 4.
  const std::pair<int64_t, std::vector<double>> counted[] = {{372, {301, 675, 1381, 2365, 3861}},
                                                             {21918, {724, 1982, 3528, 7337, 14804}}};
  configs::Settings settings;
  settings.model.layers = 4;
  for (const auto& [nodes, expected] : counted) {
    auto header = large_header();
    header.nodes = nodes;
    const auto states = estimate_states(header, settings);
    ASSERT_EQ(states.size(), expected.size());
    for (size_t level = 0; level < states.size(); ++level) {
      EXPECT_LT(states[level], 1.6 * expected[level]) << nodes << " nodes, level " << level;
      EXPECT_GT(states[level], expected[level] / 1.6) << nodes << " nodes, level " << level;
    }
  }
}

TEST(States, AreNeverMoreThanNodesTimesCandidatesAndLessInSegments) {
  configs::Settings settings;
  settings.model.layers = 9;
  settings.sampler.candidates_per_group = 2;
  auto header = large_header();
  header.nodes = 10;
  for (const double states : estimate_states(header, settings)) EXPECT_LE(states, 20);
  header.nodes = 40000;
  const auto whole = estimate_states(header, settings);
  settings.sampler.max_segment_nodes = 5000;
  const auto segment = estimate_states(header, settings);
  ASSERT_EQ(whole.size(), 10u);
  for (size_t level = 0; level < whole.size(); ++level) EXPECT_DOUBLE_EQ(segment[level], whole[level] / 8);
  const double segment_cost = estimate_sample_cost(header, settings);
  settings.sampler.max_segment_nodes = 0;
  EXPECT_DOUBLE_EQ(segment_cost * 8, estimate_sample_cost(header, settings));
}

TEST(Sharing, IsWhatTheLawSaysOfSeveralSamplesAtOnce) {
  configs::Settings settings;
  settings.model.layers = 2;
  settings.sampler.candidates_per_group = 16;
  auto header = large_header();
  header.candidates = 100000;
  const double x = estimate_sharing(header, settings);
  EXPECT_GT(x, 0.1);
  EXPECT_LT(x, 0.35) << "the law's exponents of two levels";
  // A sample of 128 candidates is what eight samples of 16 are together.
  settings.sampler.candidates_per_group = 128;
  const double together = estimate_sample_cost(header, settings);
  settings.sampler.candidates_per_group = 16;
  EXPECT_NEAR(estimate_sample_cost(header, settings) * std::pow(8, x), together, 1e-9 * together);
  header.candidates = 16;
  EXPECT_NEAR(estimate_sharing(header, settings), 0, 1e-12) << "all samples are of the same candidates";
  header.candidates = 100000;
  settings.sampler.max_segment_nodes = 1000;
  EXPECT_EQ(estimate_sharing(header, settings), 1) << "each sample trains on another segment";
  settings.sampler.max_segment_nodes = 0;
  header.kind = data::CandidateKind::program;
  EXPECT_EQ(estimate_sharing(header, settings), 1);
}

TEST(KeptNodes, FollowTheCountsOnRealFiles) {
  // Counted on alexnet_train_batch_32, unet3d, unet_3d.4x4.bf16 and 3a0c55…: nodes, configurable ones, and the shares
  // of nodes within 1 … 4 hops of these.
  struct Case {
    int64_t nodes, configurable;
    std::vector<double> shares;
  };
  configs::Settings settings;
  for (const auto& [nodes, configurable, shares] : {Case{372, 26, {.196, .401, .610, .801}},
                                                    {2774, 56, {.061, .131, .307, .568}},
                                                    {3163, 62, {.071, .138, .248, .426}},
                                                    {21918, 848, {.130, .233, .431, .690}}}) {
    auto header = large_header();
    header.nodes = nodes;
    header.configurable = configurable;
    for (size_t k = 0; k < shares.size(); ++k) {
      settings.data.prune_hops = static_cast<int64_t>(k) + 1;
      const double kept = estimate_kept_nodes(header, settings.data) / static_cast<double>(nodes);
      EXPECT_NEAR(kept, shares[k], 0.3 * shares[k]) << nodes << " nodes, " << k + 1 << " hops";
    }
    settings.data.prune_hops = 0;
    EXPECT_EQ(estimate_kept_nodes(header, settings.data), static_cast<double>(configurable));
    settings.data.prune_hops = 1000;
    EXPECT_EQ(estimate_kept_nodes(header, settings.data), static_cast<double>(nodes));
    settings.data.prune_hops = -1;
    EXPECT_EQ(estimate_kept_nodes(header, settings.data), static_cast<double>(nodes));
  }
}

TEST(KeptNodes, MakeSamplesAndGraphsCheaperButNoOthers) {
  auto header = large_header();
  auto pruned = with_segments(0, 0);
  const auto whole = pruned;
  pruned.data.prune_hops = 1;
  EXPECT_LT(estimate_sample_cost(header, pruned), estimate_sample_cost(header, whole));
  EXPECT_LT(estimate_resident_bytes(header, pruned).divided, estimate_resident_bytes(header, whole).divided);
  pruned.data.prune_hops = 1000;
  EXPECT_EQ(estimate_sample_cost(header, pruned), estimate_sample_cost(header, whole));
  EXPECT_EQ(estimate_resident_bytes(header, pruned).divided, estimate_resident_bytes(header, whole).divided);
  pruned.data.prune_hops = 0;
  header.configurable = 0;
  EXPECT_EQ(estimate_sample_cost(header, pruned), estimate_sample_cost(header, whole)) << "nothing to be near to";
  header = large_header();
  header.kind = data::CandidateKind::program;
  EXPECT_EQ(estimate_sample_cost(header, pruned), estimate_sample_cost(header, whole));
}

TEST(DrawCost, ProgramsAndTilesCountEveryNode) {
  configs::Settings settings;
  settings.model.hidden = 10;
  settings.model.layers = 1;
  settings.model.encoder_layers = 2;
  settings.model.node_type_embedding = 20;
  auto header = large_header();
  header.kind = data::CandidateKind::program;
  header.graphs = header.candidates = 100;
  header.nodes = 5000;
  header.edges = 4000;
  header.feature_count = 30;
  // By hand: 16 graphs of 50 nodes; (30 + 20) 10 + 10^2 at level 0; 2 10^2 + 4 10 2 4000 / 5000 above.
  EXPECT_DOUBLE_EQ(estimate_sample_cost(header, settings), 800.0 * (500 + 100) + 800.0 * (200 + 4 * 10 * 1.6));
  header.kind = data::CandidateKind::tile;
  EXPECT_DOUBLE_EQ(estimate_sample_cost(header, settings), 80000.0 * (600 + 264));
}

TEST(CountParts, IsTheSmallestNumberThatMeetsTheLimit) {
  const auto header = large_header();
  EXPECT_EQ(count_parts(header, with_segments(1000, 0)), 1);
  EXPECT_EQ(count_parts(header, with_segments(1000, int64_t{1} << 40)), 1);
  for (const int64_t limit : {400'000'000, 200'000'000, 50'000'000}) {
    const auto settings = with_segments(1000, limit);
    const auto bytes = estimate_resident_bytes(header, settings);
    const auto parts = static_cast<double>(count_parts(header, settings));
    EXPECT_GT(parts, 1);
    EXPECT_LE(bytes.divided / parts + bytes.whole + bytes.sample, static_cast<double>(limit));
    EXPECT_GT(bytes.divided / (parts - 1) + bytes.whole + bytes.sample, static_cast<double>(limit));
  }
}

TEST(CountParts, RefusesWhatNoCutCanMeetAndSaysWhatToChange) {
  EXPECT_NE(refusal(with_segments(0, 1'000'000)).find("set sampler.max_segment_nodes"), std::string::npos);
  EXPECT_NE(refusal(with_segments(0, 1'000'000)).find("large.npz"), std::string::npos);
  // Less than what each part has whole, and more parts than segments.
  EXPECT_NE(refusal(with_segments(1000, 3'000'000)).find("lower sampler.max_segment_nodes"), std::string::npos);
  EXPECT_NE(refusal(with_segments(20000, 100'000'000)).find("3 segments"), std::string::npos);
}

TEST(CountParts, TilesAndProgramsAreNeverCut) {
  auto header = large_header();
  for (const auto kind : {data::CandidateKind::tile, data::CandidateKind::program}) {
    header.kind = kind;
    EXPECT_EQ(count_parts(header, with_segments(0, 1)), 1);
  }
}

}  // namespace
}  // namespace foretime::sharding
