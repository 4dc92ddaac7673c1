#include "plans/symbolic_plan.h"

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/dataset/synth.h"
#include "plans/plan_source.h"
#include "tests/support/message_of.h"

namespace foretime::plans {
namespace {

using ::testing::HasSubstr;

PlanRequest request_of(int64_t layers) {
  PlanRequest request{layers, {{Direction::in, EdgeNorm::mean, false}, {Direction::both, EdgeNorm::symmetric, true}}};
  request.sharing = Sharing::states;
  return request;
}

MessagePlan plan_of(const data::Group& group, const PlanRequest& request,
                    std::shared_ptr<const SymbolicPlan> symbolic) {
  auto source = std::make_shared<PlanSource>();
  source->request = request;
  source->symbolic = std::move(symbolic);
  PlanBuilder builder(request);
  builder.add(group, std::vector<int64_t>{0, 5, 2, 9}, source);
  return std::move(builder).build();
}

void expect_same(const CsrMatrix& a, const CsrMatrix& b) {
  EXPECT_EQ(a.row_ptr, b.row_ptr);
  EXPECT_EQ(a.columns, b.columns);
  EXPECT_EQ(a.values, b.values);
}

TEST(SymbolicPlanBytes, GiveTheSamePlans) {
  const auto group = data::synthesize_layout_group({60, 14, 40, 3}, "synthetic_bytes");
  std::vector<int32_t> nodes, pool;
  for (int32_t v = 3; v < 50; ++v) {
    nodes.push_back(v);
    pool.push_back(v % 3);
  }
  for (const auto& subset : {NodeSubset{}, NodeSubset{nodes, pool, 3}}) {
    const auto request = request_of(2);
    const auto symbolic = make_symbolic_plan(group, request, subset);
    const auto bytes = to_bytes(*symbolic);
    const auto again = symbolic_plan_from_bytes(bytes, group, request, "here");
    EXPECT_EQ(to_bytes(*again), bytes);
    const auto expected = plan_of(group, request, symbolic), found = plan_of(group, request, again);
    ASSERT_EQ(found.levels.size(), 3U);
    EXPECT_EQ(found.node_features, expected.node_features);
    for (size_t l = 0; l < 2; ++l) {
      EXPECT_EQ(found.layers[l]->self, expected.layers[l]->self);
      for (size_t r = 0; r < 2; ++r) expect_same(found.layers[l]->relations[r], expected.layers[l]->relations[r]);
    }
    for (size_t s = 0; s < expected.readout.nodes.stages.size(); ++s)
      expect_same(found.readout.nodes.stages[s], expected.readout.nodes.stages[s]);
  }
}

TEST(SymbolicPlanBytes, KeysTellRequestsApart) {
  EXPECT_EQ(symbolic_plan_key(request_of(2)), symbolic_plan_key(request_of(2)));
  EXPECT_NE(symbolic_plan_key(request_of(2)), symbolic_plan_key(request_of(3)));
  auto other = request_of(2);
  other.sharing = Sharing::invariant;
  EXPECT_NE(symbolic_plan_key(request_of(2)), symbolic_plan_key(other));
  other = request_of(2);
  other.relations[0].self_loop = true;
  EXPECT_NE(symbolic_plan_key(request_of(2)), symbolic_plan_key(other));
}

TEST(SymbolicPlanBytes, OfMoreNodesThanTheGroupHasAreNotItsOwn) {
  const auto group = data::synthesize_layout_group({40, 9, 20, 5}, "synthetic_nodes");
  const auto request = request_of(2);
  for (const int64_t nodes : {int64_t{0}, group.graphs.nodes() + 1}) {
    auto other = *make_symbolic_plan(group, request, {});
    other.nodes = nodes;
    EXPECT_THAT(foretime::testing::message_of<DataError>(
                    [&] { symbolic_plan_from_bytes(to_bytes(other), group, request, "here"); }),
                HasSubstr("here: stored plan: nodes: not those of group synthetic_nodes"));
  }
}

/// Damaged bytes are refused, or give a plan that reads nothing outside of its arrays (which sanitizers would see).
TEST(SymbolicPlanBytes, SurviveDamage) {
  const auto group = data::synthesize_layout_group({40, 9, 20, 5}, "synthetic_damage");
  const auto request = request_of(2);
  const auto bytes = to_bytes(*make_symbolic_plan(group, request, {}));
  int64_t refused = 0;
  const auto attempt = [&](const std::vector<std::byte>& damaged) {
    try {
      plan_of(group, request, symbolic_plan_from_bytes(damaged, group, request, "here"));
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr("here: stored plan: "));
      ++refused;
    }
  };
  for (size_t length = 0; length < bytes.size(); length += 8 + length / 50)
    attempt({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length)});
  const int64_t cut = refused;
  EXPECT_GT(cut, 50);
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    auto damaged = bytes;
    for (int changes = 1 + i % 3; changes > 0; --changes)
      damaged[random() % damaged.size()] = static_cast<std::byte>(random());
    attempt(damaged);
  }
  EXPECT_GT(refused, cut + 500);
  EXPECT_THROW(symbolic_plan_from_bytes(bytes, data::synthesize_layout_group({30, 9, 20, 5}, "synthetic_other"),
                                        request, "here"),
               DataError);
}

using ::testing::ElementsAre;

/// `codes` [candidates][nodes].
data::LayoutCandidates layouts(const std::vector<std::vector<uint8_t>>& codes) {
  data::LayoutCandidates layout;
  std::vector<int32_t> nodes;
  std::vector<uint8_t> flat;
  for (size_t j = 0; j < codes.front().size(); ++j) nodes.push_back(static_cast<int32_t>(j));
  for (const auto& row : codes) flat.insert(flat.end(), row.begin(), row.end());
  layout.nodes = nodes;
  layout.codes = flat;
  return layout;
}

TEST(EquivalentDecisions, AreThoseThatCandidatesChooseTogether) {
  // Nodes 0 and 2 under other names of their codes; node 1 alone; nodes 3 and 4 never change.
  const auto layout = layouts({{0, 0, 5, 7, 0}, {1, 0, 2, 7, 0}, {0, 1, 5, 7, 0}, {2, 0, 9, 7, 0}});
  EXPECT_THAT(decision_weights(layout, 4), ElementsAre(0.5, 1.0, 0.5, 0.5, 0.5));
  // Of the first two candidates alone, node 1 never changes either.
  EXPECT_THAT(decision_weights(layout, 2), ElementsAre(0.5, 1.0 / 3, 0.5, 1.0 / 3, 1.0 / 3));
  EXPECT_TRUE(decision_weights({}, 4).empty());
}

}  // namespace
}  // namespace foretime::plans
