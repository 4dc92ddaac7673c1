#include <fstream>

#include <gtest/gtest.h>

#include "base/error.h"
#include "experiments/report.h"
#include "tests/experiments/experiment_support.h"
#include "tests/support/scratch.h"

namespace foretime::experiments {
namespace {

class SubmissionFileTest : public ::testing::Test {
 protected:
  /// Two entries with two seeds each: B orders the labelled group better, its seeds see the unlabelled one differently.
  Results results(const std::string& unlabelled_of_second_seed) const {
    experiment_ = testing::parse_experiment(R"(
overrides: {data: {format: layout, train: [a.npz], valid: [b.npz], test: [c.npz]}}
set: valid
seeds: 2
metrics: [kendall_tau]
submission: layout:xla:default
entries: [{label: A}, {label: B}, {label: ceiling, kind: ceiling}]
)");
    trials_ = trials_of(experiment_, folder_);
    auto results = begin_results(experiment_, trials_.size());
    for (const auto& trial : trials_) {
      std::filesystem::create_directories(trial.folder);
      const bool good = trial.entry > 0;
      std::ofstream(trial.folder / "rankings.csv")
          << "set,group,rank,candidate,id,score,predicted_runtime,runtime\n"
          << "valid,v,0,0,,1,," << (good ? 1 : 3) << "\nvalid,v,1,1,,2,,2\n"
          << (trial.seed == 1 ? "test,u,0,0,,-3,,\ntest,u,1,2,,-2,,\ntest,u,2,1,,-1,,\n" : unlabelled_of_second_seed);
      results.add(trial, trial.folder, 1);
    }
    return results;
  }

  foretime::testing::Scratch scratch_;
  const std::filesystem::path folder_ = scratch_.path();
  mutable Experiment experiment_;
  mutable std::vector<Trial> trials_;
};

TEST_F(SubmissionFileTest, TheBestEntrysSeedsTogether) {
  // One seed says 0, 2, 1, the other 1, 0, 2: after standardisation their sums say 0, 1, 2.
  const auto found = make_submission(results("test,u,0,1,,-100,,\ntest,u,1,0,,-90,,\ntest,u,2,2,,100,,\n"), trials_);
  EXPECT_EQ(found.entry, "B") << "the ceiling is no model";
  EXPECT_EQ(found.seeds, 2U);
  ASSERT_EQ(found.lines.size(), 1U);
  EXPECT_EQ(found.lines[0].first, "layout:xla:default:u");
  EXPECT_EQ(found.lines[0].second, "layout:xla:default:u,0;1;2\n");
}

TEST_F(SubmissionFileTest, SeedsOfOtherCandidatesAreRefused) {
  EXPECT_THROW(make_submission(results("test,u,0,1,,-100,,\n"), trials_), DataError);
  EXPECT_THROW(make_submission(results(""), trials_), DataError);
}

TEST_F(SubmissionFileTest, EachIdHasOneLine) {
  const Submission one{"A", 1, {{"tile:xla:a", "tile:xla:a,1;2\n"}}};
  const Submission two{"B", 1, {{"tile:xla:a", "tile:xla:a,2;1\n"}, {"tile:xla:b", "tile:xla:b,3\n"}}};
  EXPECT_EQ(submission_text({one, two}), "ID,TopConfigs\ntile:xla:a,1;2\ntile:xla:b,3\n");
}

}  // namespace
}  // namespace foretime::experiments
