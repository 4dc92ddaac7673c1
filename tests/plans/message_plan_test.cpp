#include "plans/message_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/check.h"
#include "plans/plan_source.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"

namespace foretime::plans {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::message_of;
using Dense = std::vector<std::vector<double>>;
using Edges = std::vector<std::pair<int32_t, int32_t>>;  // source, target

Dense zeros(int64_t rows, int64_t cols) {
  return Dense(static_cast<size_t>(rows), std::vector<double>(static_cast<size_t>(cols), 0.0));
}

Dense to_dense(const CsrMatrix& matrix) {
  Dense dense = zeros(matrix.rows, matrix.cols);
  EXPECT_EQ(matrix.row_ptr.size(), static_cast<size_t>(matrix.rows) + 1);
  EXPECT_EQ(matrix.row_ptr.back(), static_cast<int64_t>(matrix.columns.size()));
  EXPECT_EQ(matrix.columns.size(), matrix.values.size());
  for (size_t r = 0; r < dense.size(); ++r) {
    for (auto i = static_cast<size_t>(matrix.row_ptr[r]); i < static_cast<size_t>(matrix.row_ptr[r + 1]); ++i) {
      dense[r].at(static_cast<size_t>(matrix.columns[i])) += matrix.values[i];
      const bool first = i == static_cast<size_t>(matrix.row_ptr[r]);
      EXPECT_TRUE(first || matrix.columns[i - 1] < matrix.columns[i]);
    }
  }
  return dense;
}

void expect_equal(const Dense& found, const Dense& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t r = 0; r < found.size(); ++r) {
    ASSERT_EQ(found[r].size(), expected[r].size());
    for (size_t c = 0; c < found[r].size(); ++c) ASSERT_NEAR(found[r][c], expected[r][c], 1e-6) << r << ", " << c;
  }
}

/// The definition, word for word: counts of messages, then the weight of each.
Dense relation_by_definition(int64_t nodes, const Edges& edges, const RelationSpec& relation) {
  Dense count = zeros(nodes, nodes);
  for (const auto& [u, v] : edges) {
    if (relation.direction != Direction::out) count[v][u] += 1;
    if (relation.direction != Direction::in) count[u][v] += 1;
  }
  for (size_t v = 0; relation.self_loop && v < count.size(); ++v) count[v][v] += 1;
  Dense result = count;
  for (size_t v = 0; v < count.size(); ++v) {
    for (size_t u = 0; u < count.size(); ++u) {
      double received = 0, sent = 0;
      for (size_t i = 0; i < count.size(); ++i) {
        received += count[v][i];
        sent += count[i][u];
      }
      if (count[v][u] == 0) continue;
      if (relation.norm == EdgeNorm::mean) result[v][u] /= received;
      if (relation.norm == EdgeNorm::symmetric) result[v][u] /= std::sqrt(received * sent);
    }
  }
  return result;
}

std::vector<RelationSpec> all_relations() {
  std::vector<RelationSpec> all;
  for (const auto direction : {Direction::in, Direction::out, Direction::both}) {
    for (const auto norm : {EdgeNorm::sum, EdgeNorm::mean, EdgeNorm::symmetric}) {
      for (const bool self_loop : {false, true}) all.push_back({direction, norm, self_loop});
    }
  }
  return all;
}

/// Random edges with parallel ones, self loops, both directions and isolated nodes among them.
Edges random_edges(int64_t nodes, int64_t count, std::mt19937& random) {
  Edges edges;
  const auto linked = static_cast<int32_t>(std::max<int64_t>(1, nodes - 2));
  for (int64_t e = 0; e < count; ++e) {
    edges.emplace_back(static_cast<int32_t>(random() % linked), static_cast<int32_t>(random() % linked));
    if (e % 3 == 0) edges.push_back(edges.back());
  }
  return edges;
}

/// Sources and targets of edges, whose nodes start at `first`.
std::pair<std::vector<int32_t>, std::vector<int32_t>> ends_of(const Edges& edges, int32_t first = 0) {
  std::pair<std::vector<int32_t>, std::vector<int32_t>> ends;
  for (const auto& [u, v] : edges) {
    ends.first.push_back(u + first);
    ends.second.push_back(v + first);
  }
  return ends;
}

/// `one` for each of some candidates, along the diagonal.
Dense repeated(const Dense& one, size_t candidates) {
  const size_t n = one.size();
  Dense all = zeros(static_cast<int64_t>(n * candidates), static_cast<int64_t>(n * candidates));
  for (size_t v = 0; v < all.size(); ++v)
    std::ranges::copy(one[v % n], all[v].begin() + static_cast<int64_t>(v / n * n));
  return all;
}

data::GraphBlock make_block(const std::vector<int64_t>& sizes, const std::vector<Edges>& edges, int64_t features) {
  data::GraphBlock block;
  std::vector<int64_t> graph_ptr = {0}, edge_ptr = {0};
  std::vector<int32_t> source, target;
  for (size_t g = 0; g < sizes.size(); ++g) {
    for (const auto& [u, v] : edges[g]) {
      source.push_back(u + static_cast<int32_t>(graph_ptr.back()));
      target.push_back(v + static_cast<int32_t>(graph_ptr.back()));
    }
    graph_ptr.push_back(graph_ptr.back() + sizes[g]);
    edge_ptr.push_back(static_cast<int64_t>(source.size()));
  }
  std::vector<float> values(static_cast<size_t>(graph_ptr.back() * features));
  std::iota(values.begin(), values.end(), 0.0F);
  std::vector<uint8_t> types(static_cast<size_t>(graph_ptr.back()));
  std::iota(types.begin(), types.end(), uint8_t{0});
  block.feature_count = features;
  block.node_type_count = 256;
  block.graph_ptr = graph_ptr;
  block.edge_ptr = edge_ptr;
  block.node_features = values;
  block.node_types = types;
  block.edge_source = source;
  block.edge_target = target;
  return block;
}

/// 4 nodes 0 → 1 → 2, 0 → 3; nodes 1 and 3 configurable with 2 and 3 rows; 3 candidates.
data::Group layout_group() {
  data::Group group;
  group.name = "layout";
  group.candidates = 3;
  group.graphs = make_block({4}, {{{0, 1}, {1, 2}, {0, 3}}}, 2);
  group.layout.nodes = std::vector<int32_t>{1, 3};
  group.layout.row_ptr = std::vector<int64_t>{0, 2, 5};
  std::vector<int8_t> rows(5 * data::kLayoutFeatures);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int8_t>(i / data::kLayoutFeatures + 1);
  group.layout.rows = rows;
  group.layout.codes = std::vector<uint8_t>{0, 0, 1, 2, 0, 1};
  group.runtimes = std::vector<double>{1, 2, 3};
  return group;
}

data::Group tile_group() {
  data::Group group = layout_group();
  group.name = "tile";
  group.kind = data::CandidateKind::tile;
  group.layout = {};
  std::vector<float> features(3 * data::kTileFeatures);
  std::iota(features.begin(), features.end(), 0.5F);
  group.tile_features = features;
  return group;
}

data::Group program_group(std::mt19937& random) {
  data::Group group;
  group.name = "program";
  group.kind = data::CandidateKind::program;
  group.candidates = 4;
  const std::vector<int64_t> sizes = {3, 1, 6, 5};
  std::vector<Edges> edges;
  for (const int64_t n : sizes) edges.push_back(n == 1 ? Edges{} : random_edges(n, 5, random));
  group.graphs = make_block(sizes, edges, 2);
  return group;
}

MessagePlan plan_of(const data::Group& group, const std::vector<int64_t>& candidates, const PlanRequest& request,
                    bool cached = false) {
  PlanBuilder builder(request);
  builder.add(group, candidates, cached ? make_plan_source(group, request) : nullptr);
  return std::move(builder).build();
}

TEST(Relation, EqualsItsDefinition) {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    const int64_t nodes = 1 + static_cast<int64_t>(random() % 12);
    const Edges edges = random_edges(nodes, static_cast<int64_t>(random() % 20), random);
    const auto [source, target] = ends_of(edges, 100);
    for (const RelationSpec& relation : all_relations()) {
      expect_equal(to_dense(relation_matrix(100, nodes, source, target, relation)),
                   relation_by_definition(nodes, edges, relation));
    }
  }
}

TEST(Relation, HasTheWeightsComputedByHand) {
  const std::vector<int32_t> source = {0, 0, 1}, target = {1, 1, 2};  // 0 ⇉ 1 → 2, and 3 alone
  const auto both = relation_matrix(0, 4, source, target, {Direction::both, EdgeNorm::symmetric, true});
  const double d0 = 3, d1 = 4, d2 = 2;
  expect_equal(to_dense(both), {{1 / d0, 2 / std::sqrt(d0 * d1), 0, 0},
                                {2 / std::sqrt(d0 * d1), 1 / d1, 1 / std::sqrt(d1 * d2), 0},
                                {0, 1 / std::sqrt(d1 * d2), 1 / d2, 0},
                                {0, 0, 0, 1}});
  const auto in = relation_matrix(0, 4, source, target, {Direction::in, EdgeNorm::mean, false});
  expect_equal(to_dense(in), {{0, 0, 0, 0}, {1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 0, 0}});
  EXPECT_THAT(in.row_ptr, ElementsAre(0, 0, 1, 2, 2));
  const auto out = relation_matrix(0, 4, source, target, {Direction::out, EdgeNorm::symmetric, false});
  expect_equal(to_dense(out), {{0, 2 / std::sqrt(4.0), 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}});
}

TEST(Laplacian, IsScaledByTheBoundTwo) {
  // A triangle, a single edge, a node alone.
  const auto [source, target] = ends_of({{0, 1}, {1, 2}, {0, 2}, {3, 4}});
  const RelationSpec spec{Direction::both, EdgeNorm::laplacian_of_two, false};
  expect_equal(to_dense(relation_matrix(0, 6, source, target, spec)), {{0, -0.5, -0.5, 0, 0, 0},
                                                                       {-0.5, 0, -0.5, 0, 0, 0},
                                                                       {-0.5, -0.5, 0, 0, 0, 0},
                                                                       {0, 0, 0, 0, -1, 0},
                                                                       {0, 0, 0, -1, 0, 0},
                                                                       {0, 0, 0, 0, 0, 0}});
  EXPECT_THROW(relation_matrix(0, 6, source, target, {Direction::in, spec.norm, false}), BrokenInvariant);
}

TEST(Transpose, SwapsRowsAndColumns) {
  std::mt19937 random(3);
  const Edges edges = random_edges(9, 14, random);
  const auto [source, target] = ends_of(edges);
  const auto matrix = relation_matrix(0, 9, source, target, {Direction::in, EdgeNorm::mean, false});
  const Dense before = to_dense(matrix), after = to_dense(transpose(matrix));
  for (size_t r = 0; r < before.size(); ++r) {
    for (size_t c = 0; c < before.size(); ++c) EXPECT_EQ(before[r][c], after[c][r]);
  }
  const CsrMatrix wide{1, 3, {0, 2}, {0, 2}, {5, 6}};
  expect_equal(to_dense(transpose(wide)), {{5}, {0}, {6}});
}

TEST(LayoutPlan, HasAStateForEachNodeAndCandidate) {
  const data::Group group = layout_group();
  const PlanRequest request{2, {{Direction::in, EdgeNorm::sum, false}}, TileJoin::early};
  const MessagePlan plan = plan_of(group, {2, 1}, request);
  EXPECT_EQ(plan.candidates(), 2);
  ASSERT_EQ(plan.levels.size(), 3U);
  EXPECT_EQ(plan.levels[0], plan.levels[2]);
  EXPECT_EQ(plan.layers[0], plan.layers[1]);
  EXPECT_THAT(plan.levels[0]->node, ElementsAre(0, 1, 2, 3, 0, 1, 2, 3));
  EXPECT_THAT(plan.levels[0]->layout_row, ElementsAre(0, 1, 0, 4, 0, 2, 0, 5));
  EXPECT_THAT(plan.levels[0]->candidate, IsEmpty());
  ASSERT_EQ(plan.layout_rows.size(), 6U * data::kLayoutFeatures);
  for (size_t i = 0; i < plan.layout_rows.size(); ++i)
    EXPECT_EQ(plan.layout_rows[i], static_cast<int8_t>(i / data::kLayoutFeatures));
  EXPECT_THAT(plan.layers[0]->self, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(plan.layers[0]->relations[0].columns, ElementsAre(0, 1, 0, 4, 5, 4));
  EXPECT_THAT(plan.readout.nodes.stages[0].columns, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(plan.readout.configurable.stages[0].row_ptr, ElementsAre(0, 2, 4));
  EXPECT_THAT(plan.readout.configurable.stages[0].columns, ElementsAre(1, 3, 5, 7));
  EXPECT_THAT(plan.readout.configurable.stages[0].values, ElementsAre(1, 1, 1, 1));
}

TEST(LayoutPlan, IsBlockDiagonalOverCandidates) {
  std::mt19937 random(11);
  data::Group group = layout_group();
  const Edges edges = random_edges(4, 6, random);
  group.graphs = make_block({4}, {edges}, 2);
  const PlanRequest request{1, all_relations(), TileJoin::early};
  for (const bool cached : {false, true}) {
    const MessagePlan plan = plan_of(group, {0, 2, 1}, request, cached);
    for (size_t r = 0; r < request.relations.size(); ++r) {
      expect_equal(to_dense(plan.layers[0]->relations[r]),
                   repeated(relation_by_definition(4, edges, request.relations[r]), 3));
    }
  }
}

TEST(TilePlan, JoinsEarlyOrLate) {
  const data::Group group = tile_group();
  PlanRequest request{1, {{Direction::in, EdgeNorm::sum, false}}, TileJoin::early};
  const MessagePlan early = plan_of(group, {2, 0}, request);
  EXPECT_THAT(early.levels[0]->candidate, ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
  EXPECT_THAT(early.levels[0]->layout_row, IsEmpty());
  EXPECT_THAT(early.layout_rows, IsEmpty());
  ASSERT_EQ(early.candidate_features.size(), 2U * data::kTileFeatures);
  EXPECT_EQ(early.candidate_features[0], 2 * data::kTileFeatures + 0.5F);
  EXPECT_EQ(early.candidate_features[data::kTileFeatures], 0.5F);

  request.tile_join = TileJoin::late;
  PlanBuilder builder(request);
  builder.add(group, std::vector<int64_t>{0, 1, 2});
  builder.add(group, std::vector<int64_t>{1});
  const MessagePlan late = std::move(builder).build();
  EXPECT_THAT(late.levels[0]->node, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(late.levels[0]->candidate, IsEmpty());
  EXPECT_THAT(late.readout.nodes.stages[0].row_ptr, ElementsAre(0, 4, 8, 12, 16));
  EXPECT_THAT(late.readout.nodes.stages[0].columns, ElementsAre(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(late.readout.configurable.stages[0].row_ptr, ElementsAre(0, 0, 0, 0, 0));
  EXPECT_THAT(late.layers[0]->relations[0].columns, ElementsAre(0, 1, 0, 4, 5, 4));
  EXPECT_THAT(late.group_ptr, ElementsAre(0, 3, 4));
}

TEST(ProgramPlan, HoldsTheChosenGraphsOnly) {
  std::mt19937 random(5);
  const data::Group group = program_group(random);
  const PlanRequest request{1, all_relations(), TileJoin::early};
  const std::vector<int64_t> chosen = {3, 1, 0};
  const std::vector<size_t> first_in_group = {10, 3, 0}, first_in_plan = {0, 5, 6, 9};
  for (const bool cached : {false, true}) {
    const MessagePlan plan = plan_of(group, chosen, request, cached);
    EXPECT_THAT(plan.node_types, ElementsAre(10, 11, 12, 13, 14, 3, 0, 1, 2));
    EXPECT_EQ(plan.node_features[0], 20.0F);
    EXPECT_THAT(plan.levels[0]->node, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
    EXPECT_THAT(plan.readout.nodes.stages[0].row_ptr, ElementsAre(0, 5, 6, 9));
    EXPECT_THAT(plan.readout.configurable.stages[0].row_ptr, ElementsAre(0, 0, 0, 0));
    for (size_t r = 0; r < request.relations.size(); ++r) {
      Edges edges;  // of the chosen graphs, in the ids of the plan
      for (size_t e = 0; e < static_cast<size_t>(group.graphs.edges()); ++e) {
        const auto u = static_cast<size_t>(group.graphs.edge_source.data()[e]);
        const auto v = static_cast<size_t>(group.graphs.edge_target.data()[e]);
        for (size_t i = 0; i < chosen.size(); ++i) {
          const size_t size = first_in_plan[i + 1] - first_in_plan[i];
          if (u < first_in_group[i] || u >= first_in_group[i] + size) continue;
          edges.emplace_back(u - first_in_group[i] + first_in_plan[i], v - first_in_group[i] + first_in_plan[i]);
        }
      }
      expect_equal(to_dense(plan.layers[0]->relations[r]), relation_by_definition(9, edges, request.relations[r]));
    }
  }
}

TEST(BatchPlan, StandsItsGroupsSideBySide) {
  const data::Group group = layout_group();
  const PlanRequest request{1, {{Direction::both, EdgeNorm::symmetric, true}}, TileJoin::early};
  PlanBuilder builder(request);
  builder.add(group, std::vector<int64_t>{1}, make_plan_source(group, request));
  builder.add(group, std::vector<int64_t>{});
  builder.add(group, std::vector<int64_t>{0, 2});
  const MessagePlan plan = std::move(builder).build();
  EXPECT_THAT(plan.group_ptr, ElementsAre(0, 1, 1, 3));
  EXPECT_EQ(plan.nodes(), 12);
  EXPECT_THAT(plan.levels[0]->node, ElementsAre(0, 1, 2, 3, 8, 9, 10, 11, 8, 9, 10, 11));
  EXPECT_THAT(plan.levels[0]->layout_row, ElementsAre(0, 2, 0, 5, 0, 11, 0, 13, 0, 11, 0, 14));
  EXPECT_EQ(plan.layout_rows.size(), 16U * data::kLayoutFeatures);
  EXPECT_THAT(plan.readout.configurable.stages[0].columns, ElementsAre(1, 3, 5, 7, 9, 11));
  expect_equal(to_dense(plan.layers[0]->relations[0]),
               repeated(relation_by_definition(4, {{0, 1}, {1, 2}, {0, 3}}, request.relations[0]), 3));
}

TEST(BatchPlan, OutlivesItsGroups) {
  PlanBuilder builder({0, {}, TileJoin::early});
  {
    const data::Group group = layout_group();
    builder.add(group, std::vector<int64_t>{0});
  }
  const MessagePlan plan = std::move(builder).build();
  EXPECT_EQ(plan.levels.size(), 1U);
  EXPECT_TRUE(plan.layers.empty());
  EXPECT_THAT(plan.node_features, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(BatchPlan, RefusesWhatDoesNotFit) {
  const data::Group layout = layout_group();
  const PlanRequest request{1, {{}}, TileJoin::early};
  EXPECT_THROW(plan_of(layout, {0, 3}, request), BrokenInvariant);
  EXPECT_THROW(plan_of(layout, {-1}, request), BrokenInvariant);
  PlanBuilder builder(request);
  builder.add(layout, std::vector<int64_t>{0});
  EXPECT_THROW(builder.add(tile_group(), std::vector<int64_t>{0}), BrokenInvariant);
  data::Group wide = layout_group();
  wide.graphs = make_block({4}, {{}}, 3);
  EXPECT_THROW(builder.add(wide, std::vector<int64_t>{0}), BrokenInvariant);
  const auto other = make_plan_source(layout, {1, {{}, {}}, TileJoin::early});
  EXPECT_THROW(builder.add(layout, std::vector<int64_t>{0}, other), BrokenInvariant);
  data::Group big = layout_group();
  big.graphs.node_types = std::vector<uint8_t>(size_t{1} << 20);
  const std::vector<int64_t> all(size_t{1} << 11, 0);
  EXPECT_MESSAGE(message_of<DataError>([&] { builder.add(big, all); }));
}

TEST(PlanStates, AreWhatThePlanHolds) {
  std::mt19937 random(5);
  const PlanRequest early{1, {}, TileJoin::early}, late{1, {}, TileJoin::late};
  EXPECT_EQ(plan_states(layout_group(), 3, early), plan_of(layout_group(), {0, 1, 2}, early).levels[0]->states());
  EXPECT_EQ(plan_states(tile_group(), 2, early), plan_of(tile_group(), {0, 1}, early).levels[0]->states());
  EXPECT_EQ(plan_states(tile_group(), 2, late), plan_of(tile_group(), {0, 1}, late).levels[0]->states());
  EXPECT_EQ(plan_states(program_group(random), 2, early), 12);
}

}  // namespace
}  // namespace foretime::plans
