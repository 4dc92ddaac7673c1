#include "jobs/queue/job.h"

#include <set>

#include <gtest/gtest.h>

#include "jobs/error.h"

namespace foretime::jobs {
namespace {

JobSpec example() { return {.settings = "model: {hidden: 32}", .parameters = {{"model.hidden", "32"}}}; }

TEST(Job, IdFollowsWhatShapesTheResultAndNothingElse) {
  const auto id = job_id(example());
  EXPECT_EQ(id.size(), 16U);
  auto same = example();
  same.name = "other";
  same.priority = 7;
  same.max_attempts = 9;
  same.resources.ranks = 4;
  EXPECT_EQ(job_id(same), id);

  std::set<std::string> ids = {id};
  const auto differs = [&](auto change) {
    auto spec = example();
    change(spec);
    EXPECT_TRUE(ids.insert(job_id(spec)).second);
  };
  differs([](JobSpec& s) { s.kind = JobKind::evaluate; });
  differs([](JobSpec& s) { s.sweep = "a"; });
  differs([](JobSpec& s) { s.trial = 3; });
  differs([](JobSpec& s) { s.settings += " "; });
  differs([](JobSpec& s) { s.parameters["model.hidden"] = "33"; });
  differs([](JobSpec& s) { s.after = {"0123456789abcdef"}; });
}

TEST(Job, ContentIdIsSha256) { EXPECT_EQ(content_id("abc"), "ba7816bf8f01cfea"); }

TEST(Job, NamesRoundTrip) {
  for (const auto state : {JobState::blocked, JobState::waiting, JobState::delayed, JobState::held, JobState::active,
                           JobState::succeeded, JobState::failed, JobState::cancelled, JobState::dead})
    EXPECT_EQ(parse_job_state(to_string(state)), state);
  EXPECT_EQ(parse_job_kind("export"), JobKind::export_);
  EXPECT_THROW(parse_job_state("done"), JobsError);
}

}  // namespace
}  // namespace foretime::jobs
