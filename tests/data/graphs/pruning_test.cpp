#include "data/graphs/pruning.h"

#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/dataset/synth.h"
#include "data/graphs/validate.h"
#include "plans/plan_source.h"
#include "plans/symbolic_plan_bytes.h"
#include "tests/data/groups.h"
#include "tests/support/values.h"

namespace foretime::data {
namespace {

using foretime::testing::values;
using ::testing::ElementsAre;

/// The slow, obvious way: distances of all nodes from all others, an edge being a way in both directions.
std::vector<int32_t> near_by_distances(const Group& group, int64_t hops) {
  const int64_t n = group.graphs.nodes();
  std::vector<std::vector<int64_t>> distance(static_cast<size_t>(n), std::vector<int64_t>(static_cast<size_t>(n), n));
  for (int64_t v = 0; v < n; ++v) distance[static_cast<size_t>(v)][static_cast<size_t>(v)] = 0;
  for (int64_t e = 0; e < group.graphs.edges(); ++e) {
    const auto u = static_cast<size_t>(group.graphs.edge_source[e]),
               v = static_cast<size_t>(group.graphs.edge_target[e]);
    if (u != v) distance[u][v] = distance[v][u] = 1;
  }
  for (size_t k = 0; k < distance.size(); ++k) {
    for (auto& row : distance) {
      for (size_t v = 0; v < row.size(); ++v) row[v] = std::min(row[v], row[k] + distance[k][v]);
    }
  }
  std::vector<int32_t> near;
  for (int64_t v = 0; v < n; ++v) {
    int64_t least = n;
    for (const int32_t c : group.layout.nodes)
      least = std::min(least, distance[static_cast<size_t>(c)][static_cast<size_t>(v)]);
    if (least <= hops && least < n) near.push_back(static_cast<int32_t>(v));
  }
  return near;
}

void expect_same_graph(const Group& a, const Group& b) {
  EXPECT_EQ(values(a.graphs.graph_ptr), values(b.graphs.graph_ptr));
  EXPECT_EQ(values(a.graphs.edge_ptr), values(b.graphs.edge_ptr));
  EXPECT_EQ(values(a.graphs.node_features), values(b.graphs.node_features));
  EXPECT_EQ(values(a.graphs.node_types), values(b.graphs.node_types));
  EXPECT_EQ(values(a.graphs.edge_source), values(b.graphs.edge_source));
  EXPECT_EQ(values(a.graphs.edge_target), values(b.graphs.edge_target));
  EXPECT_EQ(a.graphs.feature_count, b.graphs.feature_count);
  EXPECT_EQ(a.graphs.node_type_count, b.graphs.node_type_count);
  EXPECT_EQ(values(a.layout.nodes), values(b.layout.nodes));
  EXPECT_EQ(values(a.layout.row_ptr), values(b.layout.row_ptr));
  EXPECT_EQ(values(a.layout.rows), values(b.layout.rows));
  EXPECT_EQ(values(a.layout.codes), values(b.layout.codes));
}

TEST(PrunedGroup, IsTheInducedGroupOfTheNearNodes) {
  for (const uint64_t seed : {1, 2, 3, 4, 5}) {
    const auto group = synthesize_layout_group({70 + 9 * static_cast<int64_t>(seed), 4, 10, seed}, "synthetic_pruned");
    int64_t before = 0;
    for (const int64_t hops : {0, 1, 2, 3, 5, 1000}) {
      const auto near = nodes_near_configurable(group, hops);
      EXPECT_EQ(near, near_by_distances(group, hops)) << "seed " << seed << ", " << hops << " hops";
      const auto pruned = pruned_group(group, hops);
      expect_same_graph(pruned, plans::induced_group(group, near));
      EXPECT_EQ(pruned.layout.configurable(), group.layout.configurable());
      EXPECT_EQ(configuration_hashes(pruned), configuration_hashes(group));
      EXPECT_EQ(values(pruned.runtimes), values(group.runtimes));
      validate_group(pruned, "pruned");
      EXPECT_GE(pruned.graphs.nodes(), before);
      before = pruned.graphs.nodes();
      expect_same_graph(pruned_group(pruned, hops), pruned);
    }
    EXPECT_EQ(pruned_group(group, 0).graphs.nodes(), group.layout.configurable());
  }
}

TEST(PrunedGroup, SharesTheLayouts) {
  const auto group = synthesize_layout_group({200, 6, 500, 1}, "synthetic_codes");
  const auto pruned = pruned_group(group, 2);
  ASSERT_LT(pruned.graphs.nodes(), group.graphs.nodes());
  EXPECT_EQ(pruned.layout.codes.data(), group.layout.codes.data());
  EXPECT_EQ(pruned.layout.rows.data(), group.layout.rows.data());
  EXPECT_EQ(pruned.runtimes.data(), group.runtimes.data());
}

TEST(PrunedGroup, ComputationsKeepTheirBounds) {
  // A chain 0 - 1 - … - 9 with configurable nodes 1 and 6: one hop leaves 0 1 2 and 5 6 7.
  Group group = testing::make_group(CandidateKind::layout, "chain", 1);
  std::vector<int32_t> source(9), target(9);
  std::iota(source.begin(), source.end(), 0);
  std::iota(target.begin(), target.end(), 1);
  group.graphs.graph_ptr = std::vector<int64_t>{0, 10};
  group.graphs.edge_ptr = std::vector<int64_t>{0, 9};
  group.graphs.node_features = std::vector<float>(30, 1.0F);
  group.graphs.node_types = std::vector<uint8_t>(10, 1);
  group.graphs.edge_source = source;
  group.graphs.edge_target = target;
  group.layout.nodes = std::vector<int32_t>{1, 6};
  group.node_splits = std::vector<int64_t>{0, 2, 4, 6, 9, 10};
  const auto pruned = pruned_group(group, 1);
  EXPECT_THAT(values(pruned.node_splits), ElementsAre(0, 2, 3, 4, 6, 6));
  EXPECT_THAT(values(pruned.layout.nodes), ElementsAre(1, 4));
  EXPECT_THAT(values(pruned.graphs.edge_source), ElementsAre(0, 1, 3, 4));
}

TEST(PrunedGroup, LeavesOtherGroupsAlone) {
  const auto program = testing::make_group(CandidateKind::program, "program", 1);
  const auto tile = testing::make_group(CandidateKind::tile, "tile", 1);
  auto layout = synthesize_layout_group({50, 5, 10, 1}, "synthetic_whole");
  for (const auto* group : {&program, &tile})
    EXPECT_EQ(pruned_group(*group, 0).graphs.node_types.data(), group->graphs.node_types.data());
  EXPECT_EQ(pruned_group(layout, kNoPruning).graphs.nodes(), 50);
  layout.layout.nodes = std::vector<int32_t>();
  layout.layout.row_ptr = std::vector<int64_t>{0};
  layout.layout.rows = std::vector<int8_t>();
  layout.layout.codes = std::vector<uint8_t>();
  EXPECT_EQ(pruned_group(layout, 1).graphs.nodes(), 50) << "nothing to be near to";
}

TEST(PrunedGroup, PlansHaveAKeyOfTheirOwn) {
  const plans::PlanRequest request{2, {{}}, plans::TileJoin::early, plans::Sharing::states};
  EXPECT_EQ(plans::symbolic_plan_key(request, kNoPruning), plans::symbolic_plan_key(request));
  EXPECT_NE(plans::symbolic_plan_key(request, 0), plans::symbolic_plan_key(request));
  EXPECT_NE(plans::symbolic_plan_key(request, 2), plans::symbolic_plan_key(request, 3));
  EXPECT_EQ(plans::symbolic_plan_key(request, 2), plans::symbolic_plan_key(request, 2));
  // Fields that another request has in other places: collections and one relation against a relation and one hop.
  plans::PlanRequest collections{
      2, {{plans::Direction::in, plans::EdgeNorm::sum, true}}, plans::TileJoin::early, plans::Sharing::states};
  collections.collections = true;
  const plans::PlanRequest outwards{
      2, {{plans::Direction::out, plans::EdgeNorm::sum, false}}, plans::TileJoin::early, plans::Sharing::states};
  EXPECT_NE(plans::symbolic_plan_key(outwards, 1), plans::symbolic_plan_key(collections));
}

}  // namespace
}  // namespace foretime::data
