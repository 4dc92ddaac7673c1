#include "worker/run/submission.h"

#include <gtest/gtest.h>

namespace foretime::worker {
namespace {

worker::GroupEvaluation seven() {
  worker::GroupEvaluation group{.set = "rank", .group = "g"};
  group.candidates = {0, 1, 2, 3, 4, 5, 6};
  group.scores.scores = {0.5, 0.1, 0.9, 0.1, 0.2, 0.7, 0.3};
  return group;
}

TEST(Submission, LayoutsRankAllAndTilesTheTopFive) {
  EXPECT_EQ(submission_line("layout:xla:random", seven()), "layout:xla:random:g,1;3;4;6;0;5;2\n");
  EXPECT_EQ(submission_line("tile:xla", seven()), "tile:xla:g,1;3;4;6;0\n");
  auto qualified = seven();
  qualified.group = "layout:xla:random:g";
  EXPECT_EQ(submission_line("layout:xla:random", qualified), "layout:xla:random:g,1;3;4;6;0;5;2\n");
}

}  // namespace
}  // namespace foretime::worker
