#include "plans/symbolic_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace foretime::plans {
namespace {

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
