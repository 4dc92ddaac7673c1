#include "jobs/sweep/leaderboard.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "cli/jobs/job_view.h"

namespace foretime::cli {
namespace {

using jobs::JobRecord;
using jobs::JobState;
using jobs::leaderboard_rows;
using jobs::LeaderboardRow;

JobRecord trial(int64_t number, JobState state, std::optional<double> best, std::map<std::string, double> metrics) {
  JobRecord job;
  job.spec.trial = number;
  job.spec.metric = "valid/tau";
  job.spec.parameters = {{"model.hidden", std::to_string(number / 2)}, {"trainer.seed", std::to_string(number % 2)}};
  job.state = state;
  job.best_objective = best;
  job.metrics = std::move(metrics);
  return job;
}

std::vector<int64_t> order(const std::vector<LeaderboardRow>& rows) {
  std::vector<int64_t> trials;
  for (const auto& row : rows) trials.push_back(row.trials.front().spec.trial);
  return trials;
}

TEST(Leaderboard, ACompleteTrialCountsWithItsFinalEvaluationAndOthersWithTheirBest) {
  auto job = trial(0, JobState::succeeded, 0.9, {{"valid/tau", 0.8}, {"test/tau", 0.7}});
  EXPECT_EQ(metric_of(job, "valid/tau"), 0.8);
  EXPECT_EQ(metric_of(job, "test/tau"), 0.7);
  EXPECT_EQ(metric_of(job, "test/mae"), std::nullopt);
  job.stopped = true;
  EXPECT_EQ(metric_of(job, "valid/tau"), 0.9);
  job.state = JobState::active;
  job.best_objective.reset();
  EXPECT_EQ(metric_of(job, "valid/tau"), 0.8);
  job.metrics["valid/tau"] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(metric_of(job, "valid/tau"), std::nullopt);
}

TEST(Leaderboard, BestFirstAndThoseWithoutAValueLast) {
  std::vector<JobRecord> jobs = {trial(0, JobState::active, 0.5, {}), trial(1, JobState::waiting, std::nullopt, {}),
                                 trial(2, JobState::dead, 0.7, {}), trial(3, JobState::active, 0.5, {}),
                                 trial(4, JobState::active, -1, {})};
  auto follower = trial(5, JobState::succeeded, 1, {});
  follower.spec.kind = jobs::JobKind::evaluate;
  jobs.push_back(follower);
  EXPECT_EQ(order(leaderboard_rows(jobs, "valid/tau", true, false)), (std::vector<int64_t>{2, 0, 3, 4, 1}));
  EXPECT_EQ(order(leaderboard_rows(jobs, "valid/tau", false, false)), (std::vector<int64_t>{4, 0, 3, 2, 1}));
}

TEST(Leaderboard, SeedsOfOneTrialAreJoined) {
  const std::vector<JobRecord> jobs = {trial(0, JobState::active, 0.5, {}), trial(1, JobState::active, 0.7, {}),
                                       trial(2, JobState::active, 0.9, {}),
                                       trial(3, JobState::waiting, std::nullopt, {})};
  const auto rows = leaderboard_rows(jobs, "valid/tau", true, true);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].value, 0.9);  // one seed of it has no value yet
  EXPECT_EQ(rows[0].counted, 1U);
  EXPECT_EQ(rows[0].spread, 0);
  EXPECT_DOUBLE_EQ(*rows[1].value, 0.6);
  EXPECT_NEAR(rows[1].spread, std::sqrt(0.02), 1e-12);
  EXPECT_EQ(rows[1].trials.front().spec.trial, 1);  // best first
  EXPECT_EQ(rows[1].parameters, (jobs::Parameters{{"model.hidden", "0"}}));
}

TEST(JobView, TextOfOthersCannotDriveTheTerminal) {
  EXPECT_EQ(one_line("a\x1b[2Jb\nc", 40), "a[2Jb c");
  EXPECT_EQ(one_line("abcdef", 6), "abcdef");
  EXPECT_EQ(one_line("abcdefg", 6), "abcde…");
  EXPECT_EQ(one_line("ααααα", 5), "ααααα");
  EXPECT_EQ(one_line("αααααα", 5), "αααα…");
}

TEST(JobView, ProgressAndAges) {
  JobRecord job;
  EXPECT_EQ(progress_text(job), "-");
  job.total_steps = 200;
  job.step = 199;
  EXPECT_EQ(progress_text(job), "[###########.]  99 %");
  job.step = 500;  // more than there should be
  EXPECT_EQ(progress_text(job), "[############] 100 %");
  EXPECT_EQ(age_text(5000), "5 s");
  EXPECT_EQ(age_text(-5000), "0 s");
  EXPECT_EQ(age_text(300000), "5 min");
  EXPECT_EQ(age_text(3 * 86400000LL), "3 days");
}

}  // namespace
}  // namespace foretime::cli
