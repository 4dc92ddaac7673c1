#include "inference/scoring/graph_scorer.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "data/graphs/pruning.h"
#include "tests/data/frontends/hlo/messages.h"
#include "tests/inference/small_models.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/synthetic_graph.h"

namespace foretime::inference::testing {
namespace {

using foretime::testing::message_of;
using ::testing::HasSubstr;

/// Each candidate embedded by a plan of its own, then all compared.
std::vector<float> slow_scores(const Model& model, const data::Group& group) {
  const auto pruned = data::pruned_group(group, model.spec().prune_hops);
  inference::Workspace workspace;
  inference::Matrix all{group.candidates, model.spec().graph.embedded_columns, {}};
  for (int64_t c = 0; c < group.candidates; ++c) {
    plans::PlanBuilder builder(model.spec().graph.request);
    builder.add(pruned, std::vector<int64_t>{c});
    const auto row = model.executor().embed(std::move(builder).build(), workspace);
    all.values.insert(all.values.end(), row.values.begin(), row.values.begin() + row.columns);
  }
  return model.executor().score(std::move(all), std::vector<int64_t>{0, group.candidates}, workspace);
}

class LayoutScores : public ::testing::TestWithParam<LayoutModel> {};

TEST_P(LayoutScores, AreThoseOfTheGroupHoweverTheyAreDivided) {
  const auto group =
      foretime::testing::synthesize_layout_group({.nodes = 60, .configurable = 12, .candidates = 400}, "synthetic");
  const auto model = model_of(layout_bundle(GetParam()));
  const auto expected = model->score_group(group);
  expect_near(expected, slow_scores(*model, group));
  EXPECT_NE(expected.front(), expected.back());

  const GraphScorer scorer(model, group);
  EXPECT_EQ(scorer.nodes(), 60);
  EXPECT_EQ(scorer.configurable().size(), 12u);
  EXPECT_EQ(scorer.score_layouts(layouts_of(group, group.candidates), group.candidates), expected);

  // Small pieces, several threads: near for other pieces, the same for other threads.
  const auto pieces = model_of(layout_bundle(GetParam()), {.threads = 1, .max_states = 500});
  expect_near(pieces->score_group(group), expected);
  const auto threads = model_of(layout_bundle(GetParam()), {.threads = 4, .max_states = 500});
  EXPECT_EQ(threads->score_group(group), pieces->score_group(group));
}

INSTANTIATE_TEST_SUITE_P(Forms, LayoutScores,
                         ::testing::Values(LayoutModel{}, LayoutModel{.sharing = plans::Sharing::none},
                                           LayoutModel{.sharing = plans::Sharing::invariant},
                                           LayoutModel{.compares = true, .tied = true}, LayoutModel{.prune_hops = 1},
                                           LayoutModel{.sharing = plans::Sharing::none, .prune_hops = 1}));

TEST(GraphScorer, SomeCandidatesInAnyOrderAndTwice) {
  const auto group =
      foretime::testing::synthesize_layout_group({.nodes = 60, .configurable = 12, .candidates = 50}, "synthetic");
  const auto model = model_of(layout_bundle());
  const auto all = model->score_group(group);
  const std::vector<int64_t> chosen = {7, 3, 3, 49, 0, 7};
  const auto some = model->score_group(group, chosen);
  std::vector<float> expected;
  for (const int64_t c : chosen) expected.push_back(all[static_cast<size_t>(c)]);
  expect_near(some, expected);
  EXPECT_EQ(some[1], some[2]);
  std::vector<float> failures = {0.5F};  // of an earlier call
  EXPECT_TRUE(model->score_group(group, {}, &failures).empty());
  EXPECT_TRUE(failures.empty());
}

TEST(GraphScorer, FewLayoutsScoreAsAmongMany) {
  const int64_t candidates = 300, configurable = 12;
  auto layouts = random_layouts(candidates, configurable, 5);
  // A node with one layout, which a plan of all candidates takes as fixed.
  for (int64_t c = 0; c < candidates; ++c)
    std::copy_n(layouts.begin(), data::kLayoutFeatures, layouts.begin() + c * configurable * data::kLayoutFeatures);
  for (const auto& form :
       {LayoutModel{}, LayoutModel{.sharing = plans::Sharing::invariant}, LayoutModel{.prune_hops = 1}}) {
    const GraphScorer scorer(model_of(layout_bundle(form)),
                             small_graph(data::CandidateKind::layout, 80, configurable, 3));
    const auto all = scorer.score_layouts(layouts, candidates);
    for (const int64_t few : {1, 7, 32, 33}) {
      const std::span<const int8_t> some(layouts.data(),
                                         static_cast<size_t>(few * configurable * data::kLayoutFeatures));
      expect_near(scorer.score_layouts(some, few), {all.begin(), all.begin() + few});
    }
  }
}

TEST(GraphScorer, ThreadsGiveTheSameScores) {
  const int64_t candidates = 3000;
  const auto layouts = random_layouts(candidates, 20, 5);
  const auto group = small_graph(data::CandidateKind::layout, 300, 20, 3);
  const auto one = GraphScorer(model_of(layout_bundle()), group).score_layouts(layouts, candidates);
  const auto four = GraphScorer(model_of(layout_bundle(), {.threads = 4}), group).score_layouts(layouts, candidates);
  EXPECT_EQ(one, four);
  const auto tiles = random_tiles(candidates, 2);
  for (const auto join : {plans::TileJoin::early, plans::TileJoin::late}) {
    const auto graph = small_graph(data::CandidateKind::tile, 50, 0, 4);
    const auto alone = GraphScorer(model_of(tile_bundle(join)), graph).score_tiles(tiles, candidates);
    const auto many = GraphScorer(model_of(tile_bundle(join), {.threads = 4}), graph).score_tiles(tiles, candidates);
    EXPECT_EQ(alone, many);
  }
}

TEST(GraphScorer, TilesAreThoseOfTheGroup) {
  for (const auto join : {plans::TileJoin::early, plans::TileJoin::late}) {
    const auto model = model_of(tile_bundle(join));
    auto group = small_graph(data::CandidateKind::tile, 30, 0, 9);
    const GraphScorer scorer(model, group);
    group.candidates = 40;
    group.tile_features = random_tiles(40, 1);
    group.runtimes = std::vector<double>(40, 0.0);
    const auto expected = model->score_group(group);
    expect_near(expected, slow_scores(*model, group));
    EXPECT_EQ(scorer.score_tiles(group.tile_features.span(), 40), expected);
  }
}

TEST(GraphScorer, LayoutsAreCodedInTheOrderOfTheirFirstAppearance) {
  const int64_t candidates = 200, configurable = 7;
  const auto layouts = random_layouts(candidates, configurable, 1);
  const auto [coded, count, full] = code_layouts(std::vector<int32_t>(configurable, 0), layouts, candidates);
  EXPECT_EQ(count, candidates);
  EXPECT_EQ(full, -1);
  data::Group group;
  group.candidates = candidates;
  group.layout = coded;
  EXPECT_EQ(layouts_of(group, candidates), layouts);
  for (int64_t j = 0; j < configurable; ++j) {
    EXPECT_EQ(coded.codes[j], 0);
    EXPECT_LE(coded.row_ptr[j + 1] - coded.row_ptr[j], 5);
  }
}

/// Of two nodes, the first of which has layout numbers[i] in candidate i, the other one i / 2.
std::vector<int8_t> numbered_layouts(const std::vector<int>& numbers) {
  std::vector<int8_t> layouts(numbers.size() * 2 * data::kLayoutFeatures, -1);
  const auto set = [&](size_t row, int number) {
    layouts[row * data::kLayoutFeatures] = static_cast<int8_t>(number % 100);
    layouts[row * data::kLayoutFeatures + 17] = static_cast<int8_t>(number / 100);
  };
  for (size_t c = 0; c < numbers.size(); ++c) {
    set(2 * c, numbers[c]);
    set(2 * c + 1, static_cast<int>(c / 2));
  }
  return layouts;
}

std::vector<int> counting(int from, int to) {
  std::vector<int> numbers(static_cast<size_t>(to - from));
  std::iota(numbers.begin(), numbers.end(), from);
  return numbers;
}

TEST(GraphScorer, LayoutsAreCodedAsFarAsAByteTellsThemApart) {
  const std::vector<int32_t> nodes = {3, 8};
  const auto coded = [&](const std::vector<int>& numbers) {
    return code_layouts(nodes, numbered_layouts(numbers), static_cast<int64_t>(numbers.size()));
  };
  EXPECT_EQ(coded(counting(0, 256)).candidates, 256);
  EXPECT_EQ(coded(counting(0, 257)).candidates, 256);
  EXPECT_EQ(coded(counting(0, 257)).full, 0);
  EXPECT_EQ(coded(std::vector<int>(600, 7)).candidates, 512);
  EXPECT_EQ(coded(std::vector<int>(600, 7)).full, 1);
  auto again = counting(0, 256);
  for (int i = 0; i < 100; ++i) again.push_back(i);
  again.push_back(256);
  const auto full = coded(again);
  EXPECT_EQ(full.candidates, 356);
  EXPECT_EQ(full.layout.codes.size(), 712);
  EXPECT_EQ(full.layout.codes[2 * 355], 99);
}

TEST(GraphScorer, TheCandidateThatDoesNotFitLeavesNoRows) {
  // Its first node has a new layout, its second one the 257th.
  std::vector<int> numbers(512, 7);
  numbers.push_back(9);
  const auto coded = code_layouts(std::vector<int32_t>{3, 8}, numbered_layouts(numbers), 513);
  EXPECT_EQ(coded.candidates, 512);
  EXPECT_EQ(coded.full, 1);
  EXPECT_EQ(coded.layout.row_ptr[1], 1);
  EXPECT_EQ(coded.layout.row_ptr[2], 257);
  EXPECT_EQ(coded.layout.rows.size(), 257 * data::kLayoutFeatures);
}

TEST(GraphScorer, MoreThan256LayoutsOfANodeAreScoredInParts) {
  const auto group = small_graph(data::CandidateKind::layout, 10, 2, 3);
  const GraphScorer scorer(model_of(layout_bundle()), group);
  const auto numbers = counting(0, 600);
  const auto layouts = numbered_layouts(numbers);
  const auto scores = scorer.score_layouts(layouts, 600);
  ASSERT_EQ(scores.size(), 600u);
  std::vector<float> alone;
  for (size_t c = 0; c < 600; ++c) {
    const std::span<const int8_t> one(layouts.data() + c * 2 * data::kLayoutFeatures, 2 * data::kLayoutFeatures);
    alone.push_back(scorer.score_layouts(one, 1).front());
  }
  expect_near(scores, alone);
  // What depends on the other candidates of a call has no parts.
  for (const auto& form :
       {LayoutModel{.compares = true}, LayoutModel{.tied = true}, LayoutModel{.tied = true, .prune_hops = 1}}) {
    const auto model = model_of(layout_bundle(form));
    EXPECT_TRUE(model->spec().compares_candidates);
    EXPECT_MESSAGE(message_of<DataError>([&] { GraphScorer(model, group).score_layouts(layouts, 600); }));
  }
}

TEST(GraphScorer, ReadsModules) {
  const GraphScorer layouts = GraphScorer::from_hlo(model_of(layout_bundle()), sample_module());
  EXPECT_EQ(layouts.nodes(), 9);
  EXPECT_EQ(std::vector(layouts.configurable().begin(), layouts.configurable().end()), (std::vector{4, 5, 6}));
  EXPECT_EQ(layouts.score_layouts(random_layouts(5, 3, 1), 5).size(), 5u);
  const auto named = foretime::testing::module_tuning(sample_module(), {}, {8, 5});
  const GraphScorer two = GraphScorer::from_hlo(model_of(layout_bundle()), named);
  EXPECT_EQ(std::vector(two.configurable().begin(), two.configurable().end()), (std::vector{5, 8}));
  const GraphScorer tiles = GraphScorer::from_hlo(model_of(tile_bundle()), sample_module());
  EXPECT_EQ(tiles.score_tiles(random_tiles(3, 1), 3).size(), 3u);
  EXPECT_THAT(message_of<DataError>([&] { GraphScorer::from_hlo(model_of(tile_bundle()), "none"); }),
              HasSubstr("HLO module"));
  const auto many = foretime::testing::tuning({foretime::testing::module_tuning(sample_module(), {})});
  EXPECT_THAT(message_of<DataError>([&] { GraphScorer::from_hlo(model_of(tile_bundle()), many); }),
              HasSubstr("TuningData"));
}

TEST(GraphScorer, RefusesWhatDoesNotFit) {
  const auto layouts = model_of(layout_bundle()), tiles = model_of(tile_bundle()), trees = model_of(trees_bundle());
  const auto graph = small_graph(data::CandidateKind::layout, 10, 2, 3);
  EXPECT_MESSAGE(message_of<WrongKind>([&] { GraphScorer(trees, graph); }));
  EXPECT_THAT(message_of<WrongKind>([&] { GraphScorer(tiles, graph); }), HasSubstr("another kind"));
  auto changed = graph;
  changed.graphs.feature_count = 70;
  changed.graphs.node_features = std::vector<float>(700, 0.0F);
  EXPECT_THAT(message_of<DataError>([&] { GraphScorer(layouts, changed); }), HasSubstr("70 columns"));
  changed = graph;
  changed.graphs.edge_target = std::vector<int32_t>(static_cast<size_t>(graph.graphs.edges()), 10);
  EXPECT_MESSAGE(message_of<DataError>([&] { GraphScorer(layouts, changed); }));
  changed = graph;
  changed.layout.nodes = std::vector<int32_t>{5, 5};
  EXPECT_THAT(message_of<DataError>([&] { GraphScorer(layouts, changed); }), HasSubstr("ascending ids"));
  const GraphScorer scorer(layouts, graph);
  EXPECT_MESSAGE(message_of<WrongKind>([&] { scorer.score_tiles({}, 0); }));
  auto wrong = random_tiles(2, 1);
  wrong[30] = std::numeric_limits<float>::infinity();
  const GraphScorer tile_scorer(tiles, small_graph(data::CandidateKind::tile, 10, 0, 3));
  EXPECT_MESSAGE(message_of<DataError>([&] { tile_scorer.score_tiles(wrong, 2); }));
  EXPECT_MESSAGE(message_of<WrongKind>([&] { tile_scorer.score_layouts({}, 0); }));
}

TEST(GraphScorer, GraphsWithoutConfigurableNodesHaveOneScore) {
  const GraphScorer scorer(model_of(layout_bundle()), small_graph(data::CandidateKind::layout, 10, 0, 3));
  const auto scores = scorer.score_layouts({}, 4);
  EXPECT_EQ(scores, std::vector<float>(4, scores.front()));
}

}  // namespace
}  // namespace foretime::inference::testing
