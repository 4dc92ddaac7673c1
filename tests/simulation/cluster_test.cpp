#include "tests/simulation/cluster.h"

#include <gtest/gtest.h>

namespace foretime::simulation {
namespace {

TEST(SimulatedCluster, ASeedGivesTheSameRun) {
  const auto first = simulate_cluster({.seed = 3, .hours = 5}), again = simulate_cluster({.seed = 3, .hours = 5});
  EXPECT_GT(first.jobs, 5);
  EXPECT_EQ(first.digest, again.digest);
  EXPECT_EQ(first.steps, again.steps);
  EXPECT_NE(first.digest, simulate_cluster({.seed = 4, .hours = 5}).digest);
}

}  // namespace
}  // namespace foretime::simulation
