#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "plans/message_plan.h"
#include "plans/plan_source.h"
#include "tests/support/synthetic_graph.h"

/// Plans with shared states compute what plans without compute: over a small model that is no sum of its parts.
namespace foretime::plans {
namespace {

using Values = std::vector<double>;

Values times(const CsrMatrix& matrix, const Values& x) {
  EXPECT_EQ(matrix.cols, static_cast<int64_t>(x.size()));
  Values y(static_cast<size_t>(matrix.rows), 0.0);
  for (size_t r = 0; r < y.size(); ++r) {
    for (auto i = static_cast<size_t>(matrix.row_ptr.at(r)); i < static_cast<size_t>(matrix.row_ptr.at(r + 1)); ++i)
      y[r] += matrix.values.at(i) * x.at(static_cast<size_t>(matrix.columns.at(i)));
  }
  return y;
}

Values pooled(const PlanPool& pool, Values x) {
  for (const auto& stage : pool.stages) x = times(stage, x);
  return x;
}

/// One number a state, in which all that a model may see of a node has its part.
Values states_of(const PlanLevel& level, const MessagePlan& plan) {
  constexpr int64_t kLayout = 18;
  Values x;
  for (size_t s = 0; s < level.node.size(); ++s) {
    const int64_t node = level.node[s], row = level.layout_row.empty() ? 0 : level.layout_row[s];
    double value = 0.01 * plan.node_types.at(static_cast<size_t>(node));
    for (int64_t f = 0; f < plan.feature_count; ++f)
      value += std::sin(static_cast<double>(f + 1)) *
               std::tanh(0.01 * plan.node_features.at(static_cast<size_t>(node * plan.feature_count + f)));
    for (int64_t f = 0; f < kLayout; ++f)
      value += std::cos(static_cast<double>(f)) * plan.layout_rows.at(static_cast<size_t>(row * kLayout + f));
    if (!plan.node_collections.empty()) value += 0.1 * plan.node_collections.at(static_cast<size_t>(node));
    x.push_back(std::tanh(value));
  }
  return x;
}

Values final_states(const MessagePlan& plan) {
  Values x = states_of(*plan.levels.front(), plan);
  for (size_t l = 0; l < plan.layers.size(); ++l) {
    const auto& layer = *plan.layers[l];
    EXPECT_EQ(layer.self.size(), plan.levels[l + 1]->node.size());
    Values next;
    for (const int32_t self : layer.self) next.push_back(0.7 * x.at(static_cast<size_t>(self)));
    for (size_t r = 0; r < layer.relations.size(); ++r) {
      const auto sums = times(layer.relations[r], x);
      for (size_t s = 0; s < next.size(); ++s) next[s] += (0.3 + 0.2 * static_cast<double>(r)) * sums.at(s);
    }
    for (double& value : next) value = std::tanh(value);
    x = std::move(next);
  }
  return x;
}

void expect_near(const Values& found, const Values& expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-9) << what << ' ' << i;
}

struct Batch {
  const data::Group* group;
  std::vector<int64_t> candidates;
};

MessagePlan plan_of(const std::vector<Batch>& batch, const PlanRequest& request) {
  PlanBuilder builder(request);
  for (const auto& each : batch) builder.add(*each.group, each.candidates);
  return std::move(builder).build();
}

void expect_same_model(const std::vector<Batch>& batch, PlanRequest request) {
  request.sharing = Sharing::none;
  const auto plain = plan_of(batch, request);
  const auto expected = final_states(plain);
  for (const auto sharing : {Sharing::invariant, Sharing::states}) {
    request.sharing = sharing;
    const auto plan = plan_of(batch, request);
    const auto found = final_states(plan);
    const auto what = configs::word_of(sharing) + ", layers " + std::to_string(request.layers);
    EXPECT_LE(found.size(), expected.size()) << what;
    EXPECT_EQ(plan.group_ptr, plain.group_ptr);
    expect_near(pooled(plan.readout.nodes, found), pooled(plain.readout.nodes, expected), what + ", nodes of");
    expect_near(pooled(plan.readout.configurable, found), pooled(plain.readout.configurable, expected),
                what + ", configurable nodes of");
    ASSERT_EQ(plan.readout.tied.stages.empty(), !request.tied);
    if (request.tied)
      expect_near(pooled(plan.readout.tied, found), pooled(plain.readout.tied, expected), what + ", tied nodes of");
  }
}

std::vector<RelationSpec> relations() {
  return {{Direction::in, EdgeNorm::mean, false},
          {Direction::out, EdgeNorm::sum, true},
          {Direction::both, EdgeNorm::symmetric, true},
          {Direction::both, EdgeNorm::sender, false}};
}

TEST(SharedPlan, ComputesWhatAPlanWithoutSharingComputes) {
  const auto a = foretime::testing::synthesize_layout_group({60, 9, 12, 1}, "a"),
             b = foretime::testing::synthesize_layout_group({25, 6, 30, 2}, "b");
  const std::vector<Batch> batch = {{&a, {0, 5, 5, 2, 11}}, {&b, {29, 0, 1}}, {&a, {7, 0}}};
  for (const int64_t layers : {0, 1, 2, 3}) {
    for (const bool tied : {false, true})
      expect_same_model(batch, {.layers = layers, .relations = relations(), .tied = tied});
  }
}

/// Nodes that all candidates choose together share one weight.
TEST(SharedPlan, ComputesTiedNodesOfDecisionsThatAreTied) {
  auto group = foretime::testing::synthesize_layout_group({40, 6, 12, 7}, "g");
  std::vector<uint8_t> codes(group.layout.codes.begin(), group.layout.codes.end());
  for (const int64_t j : {1, 3, 4}) {
    ASSERT_GE(group.layout.row_ptr[j + 1] - group.layout.row_ptr[j], 2);
    for (size_t c = 0; c < 12; ++c) codes[c * 6 + static_cast<size_t>(j)] = c % 3 == 0 ? 1 : 0;
  }
  group.layout.codes = codes;
  const auto weights = decision_weights(group.layout, 12);
  EXPECT_LT(weights[1], 1);
  expect_same_model({{&group, {0, 1, 2, 3, 4, 11}}}, {.layers = 2, .relations = relations(), .tied = true});
}

TEST(SharedPlan, ComputesGraphsWithOneAndWithAllNodesConfigurable) {
  for (const int64_t configurable : {1, 20}) {
    const auto group = foretime::testing::synthesize_layout_group({20, configurable, 8, 3}, "g");
    expect_same_model({{&group, {0, 1, 2, 3, 4, 5, 6, 7}}}, {.layers = 2, .relations = relations(), .tied = true});
  }
}

TEST(SharedPlan, SharesWhatCandidatesHaveInCommon) {
  const auto group = foretime::testing::synthesize_layout_group({200, 4, 40, 4}, "g");
  std::vector<int64_t> all(40);
  std::iota(all.begin(), all.end(), 0);
  const auto states = [&](Sharing sharing) {
    return plan_of({{&group, all}}, {.layers = 1, .relations = {{}}, .sharing = sharing}).levels.back()->states();
  };
  EXPECT_EQ(states(Sharing::none), 200 * 40);
  EXPECT_LT(states(Sharing::invariant), 200 * 40 / 3);
  EXPECT_LT(states(Sharing::states), states(Sharing::invariant));
}

/// A source that was prepared for candidates that come later.
TEST(SharedPlan, OfAPreparedSourceIsThatOfAWholeOne) {
  const auto group = foretime::testing::synthesize_layout_group({50, 8, 16, 5}, "g");
  const std::vector<int64_t> candidates = {3, 0, 15, 3};
  const PlanRequest request{.layers = 2, .relations = relations(), .sharing = Sharing::states};
  const auto prepared = prepare_plan_source(group, request);
  ASSERT_TRUE(prepared);
  PlanBuilder builder(request);
  builder.add(group, candidates, complete_plan_source(*prepared, group.layout));
  const auto plan = std::move(builder).build();
  const auto whole = plan_of({{&group, candidates}}, request);
  expect_near(pooled(plan.readout.nodes, final_states(plan)), pooled(whole.readout.nodes, final_states(whole)),
              "nodes of");
  expect_near(pooled(plan.readout.configurable, final_states(plan)),
              pooled(whole.readout.configurable, final_states(whole)), "configurable nodes of");
}

/// What candidates share is not known before the first piece is there, whatever memory there is.
TEST(PieceSize, TheFirstPieceIsSmall) {
  const auto group = foretime::testing::synthesize_layout_group({40, 12, 16, 8}, "g");
  PlanSource source;
  source.request = {.layers = 1, .relations = relations(), .sharing = Sharing::states};
  source.symbolic = make_symbolic_plan(group, source.request, {});
  EXPECT_LE(PieceSize(group, source, int64_t{1} << 40).candidates(), 4096);
  EXPECT_GE(PieceSize(group, source, int64_t{1} << 40).candidates(), 1024);
  EXPECT_EQ(PieceSize(group, source, 1).candidates(), 1);
}

/// Of many candidates, parts that go together are summed once, in each pool: which pool comes first must not matter.
TEST(SharedPlan, SumsPartsTogetherInEachPool) {
  const auto group = foretime::testing::synthesize_layout_group({40, 12, 512, 8}, "g");
  std::vector<int64_t> candidates(512);
  std::iota(candidates.begin(), candidates.end(), 0);
  const PlanRequest request{.layers = 1, .relations = relations(), .sharing = Sharing::states};
  const auto entries = [&](int32_t small) {
    std::vector<int32_t> nodes, pool;
    for (int32_t v = 0; v < 40; ++v) {
      nodes.push_back(v);
      pool.push_back(v < 8 ? small : 1 - small);
    }
    auto source = std::make_shared<PlanSource>();
    source->request = request;
    source->symbolic = make_symbolic_plan(group, request, {nodes, pool, 2});
    PlanBuilder builder(request);
    builder.add(group, candidates, source);
    const auto plan = std::move(builder).build();
    size_t count = 0;
    for (const auto& stage : plan.readout.nodes.stages) count += stage.columns.size();
    return count;
  };
  EXPECT_EQ(entries(0), entries(1));
}

TEST(SharedPlan, OfASubsetHasItsNodesAloneAndPoolsThemByThemselves) {
  const auto group = foretime::testing::synthesize_layout_group({40, 7, 10, 6}, "g");
  std::vector<int32_t> nodes, pool;
  for (int32_t v = 2; v < 37; v += 2) {
    nodes.push_back(v);
    pool.push_back(v % 3);
  }
  PlanRequest request{.layers = 2, .relations = relations(), .sharing = Sharing::states};
  auto source = std::make_shared<PlanSource>();
  source->request = request;
  source->symbolic = make_symbolic_plan(group, request, {nodes, pool, 3});
  const std::vector<int64_t> candidates = {9, 1, 4};
  PlanBuilder builder(request);
  builder.add(group, candidates, source);
  const auto plan = std::move(builder).build();
  request.sharing = Sharing::none;
  const auto part = induced_group(group, nodes);
  const auto all = final_states(plan_of({{&part, candidates}}, request));
  Values sums(9, 0.0), decisions(9, 0.0);
  for (size_t c = 0; c < 3; ++c) {
    for (size_t i = 0; i < nodes.size(); ++i) {
      const auto at = 3 * c + static_cast<size_t>(pool[i]);
      const double value = all.at(nodes.size() * c + i);
      sums[at] += value;
      if (std::binary_search(group.layout.nodes.begin(), group.layout.nodes.end(), nodes[i])) decisions[at] += value;
    }
  }
  ASSERT_EQ(plan.readout.pools, 3);
  expect_near(pooled(plan.readout.nodes, final_states(plan)), sums, "pool");
  expect_near(pooled(plan.readout.configurable, final_states(plan)), decisions, "configurable nodes of pool");
}

}  // namespace
}  // namespace foretime::plans
