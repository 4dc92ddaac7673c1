#include "base/table.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "worker/run/display.h"

namespace foretime::worker {
namespace {

TEST(Table, ColumnsLineUpWhateverTheAlphabet) {
  EXPECT_EQ(format_table({{"model", "τ"}, {"gcn", "0.5"}}),
            "  model    τ\n"
            "  -----  ---\n"
            "  gcn    0.5\n");
}

TEST(Table, ComparesModelsBesideTheCeiling) {
  worker::Evaluation gcn, mean;
  gcn.metrics = {{"test/kendall_tau", 0.75}, {"test/mae", 0.0005}, {"test/noise_ceiling_tau", 0.9}};
  worker::GroupEvaluation group{.set = "test", .group = "C3", .unit = data::RuntimeUnit::seconds};
  gcn.groups = {group};
  mean.metrics = {{"test/kendall_tau", 0.0}, {"test/mae", 0.007}};
  const auto text = comparison_table({{"gcn", gcn}, {"mean", mean}});
  EXPECT_NE(text.find("l1 (ms)"), std::string::npos) << text;
  EXPECT_NE(text.find("0.750"), std::string::npos) << text;
  EXPECT_NE(text.find("0.5 "), std::string::npos) << text;  // seconds in milliseconds
  EXPECT_NE(text.find("noise ceiling"), std::string::npos) << text;
  EXPECT_EQ(text.find("holdout"), std::string::npos) << text;
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
  auto qualified = seven();
  qualified.group = "layout:xla:random:g";
  EXPECT_EQ(submission_line("layout:xla:random", qualified), "layout:xla:random:g,1;3;4;6;0;5;2\n");
}

}  // namespace
}  // namespace foretime::worker
