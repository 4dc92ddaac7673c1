#include "cli/submission.h"

#include <gtest/gtest.h>

namespace foretime::cli {
namespace {

TEST(Submission, CollectionsComeFromThePath) {
  EXPECT_EQ(collection_of("data/npz/layout/xla/random/test/x.npz"), "layout:xla:random");
  EXPECT_EQ(collection_of("/a/layout/nlp/default/valid/y.npz"), "layout:nlp:default");
  EXPECT_EQ(collection_of("npz/tile/xla/test/z.npz"), "tile:xla");
  EXPECT_EQ(collection_of("elsewhere/z.npz"), "");
}

worker::GroupEvaluation seven() {
  worker::GroupEvaluation group{.set = "rank", .group = "g"};
  group.candidates = {0, 1, 2, 3, 4, 5, 6};
  group.scores.scores = {0.5, 0.1, 0.9, 0.1, 0.2, 0.7, 0.3};
  return group;
}

TEST(Submission, LayoutsRankAllAndTilesTheTopFive) {
  EXPECT_EQ(submission_line("layout:xla:random", seven()), "layout:xla:random:g,1;3;4;6;0;5;2\n");
  EXPECT_EQ(submission_line("tile:xla", seven()), "tile:xla:g,1;3;4;6;0\n");
}

}  // namespace
}  // namespace foretime::cli
