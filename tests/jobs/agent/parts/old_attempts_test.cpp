#include "jobs/agent/old_attempts.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/scratch.h"

namespace foretime::jobs {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

class OldAttempts : public ::testing::Test {
 protected:
  OldAttempts() {
    job_.spec.id = "0123456789abcdef";
    job_.spec.maximize = false;
    job_.state = JobState::succeeded;
  }

  /// An attempt that was last written to `days` ago; `best`: the value of its best checkpoint.
  void add(const std::string& name, double days, double best = -1) { add(name, days, {job_.spec.id, kQueue}, best); }
  void add(const std::string& name, double days, const AttemptOwner& owner, double best = -1) {
    const auto folder = scratch_.path() / job_.spec.id / name;
    fs::create_directories(folder / "checkpoints");
    if (!owner.job.empty()) mark_attempt(folder, owner);
    std::ofstream(folder / "output.log") << "log\n";
    if (best >= 0)
      std::ofstream(folder / "checkpoints/best.json") << R"({"step": 5, "metric": "m", "value": )" << best << "}";
    const auto then = now_ - std::chrono::seconds(static_cast<int64_t>(days * 24 * 3600));
    for (const auto& path : {folder / "output.log", folder / "checkpoints", folder}) fs::last_write_time(path, then);
  }
  Names old(const AttemptRetention& retention) const {
    Names names;
    for (const auto& path : old_attempts(scratch_.path(), job_, kQueue, retention, now_))
      names.push_back(path.filename());
    return names;
  }

  static constexpr const char* kQueue = "queue";
  testing::Scratch scratch_;
  JobRecord job_;
  fs::file_time_type now_ = fs::file_time_type::clock::now();
};

// Promise storage/attempts-removed: attempts are removed when replaced or forgotten, never while needed, of another
// queue, or made by no agent
TEST_F(OldAttempts, ReplacedOnesGoByNumberAndByAge) {
  for (int i = 1; i <= 12; ++i) add("attempt-" + std::to_string(i), 13 - i);
  EXPECT_EQ(old({.keep = 1}), (Names{"attempt-1", "attempt-2", "attempt-3", "attempt-4", "attempt-5", "attempt-6"}));
  EXPECT_EQ(old({.keep = 9}), (Names{"attempt-1", "attempt-2"}));
  EXPECT_EQ(old({.keep = 0, .age = std::chrono::seconds(0)}).size(), 11U);
  EXPECT_EQ(old({.keep = 20, .age = std::chrono::seconds(0)}), Names{});
}

// Promise storage/attempts-removed
TEST_F(OldAttempts, NoneOfAJobThatHasNotEndedOrCannotBeRead) {
  for (int i = 1; i <= 3; ++i) add("attempt-" + std::to_string(i), 100);
  const AttemptRetention all{.keep = 0, .age = std::chrono::seconds(0)};
  for (const auto state : {JobState::active, JobState::waiting, JobState::delayed, JobState::held, JobState::blocked}) {
    job_.state = state;
    EXPECT_EQ(old(all), Names{});
  }
  for (const auto state : {JobState::succeeded, JobState::failed, JobState::dead, JobState::cancelled}) {
    job_.state = state;
    EXPECT_EQ(old(all).size(), 2U);
  }
  job_.unreadable = "a field that nobody knows";
  EXPECT_EQ(old(all), Names{});
}

TEST_F(OldAttempts, TheAttemptsWithTheCheckpointToGoOnFromAndWithTheBestOneStay) {
  add("attempt-1", 100);
  add("attempt-2", 100, 0.1);  // the best: smaller is better
  add("attempt-3", 100, 0.7);
  add("attempt-4", 100);
  add("attempt-10", 100);  // the newest, also by its number
  job_.checkpoint = job_.spec.id + "/attempt-4/checkpoints/step-00000010";
  const AttemptRetention all{.keep = 0, .age = std::chrono::seconds(0)};
  EXPECT_EQ(old(all), (Names{"attempt-1", "attempt-3"}));
  job_.spec.maximize = true;
  EXPECT_EQ(old(all), (Names{"attempt-1", "attempt-2"}));
}

TEST_F(OldAttempts, WhatARemovalLeftGoesAndWhatIsNoAttemptStays) {
  add("attempt-1.old-77.foretime-tmp", 0);
  add("attempt-2-token", 0);
  add("attempt-2", 0);
  add("notes", 100);
  add("attempt-0", 100, AttemptOwner{});
  add("attempt-0-my-notes", 100, AttemptOwner{});
  add("attempt-0-theirs", 100, {job_.spec.id, "another"});
  add("attempt-0-others", 100, {"another", kQueue});
  EXPECT_EQ(old({.keep = 0, .age = std::chrono::seconds(0)}), Names{"attempt-1.old-77.foretime-tmp"});
}

TEST_F(OldAttempts, CopiesAndLinksStay) {
  const auto folder = scratch_.path() / job_.spec.id;
  add("attempt-1", 100);
  add("attempt-2", 100);
  for (const auto* copy : {"attempt-1 (copy)", "attempt-1.keep", "attempt-1-copy", "attempt-0", "attempt-01",
                           "attempt-1.old-x.foretime-tmp", "attempt-1.old-7.foretime-tmp.foretime-tmp"})
    fs::copy(folder / "attempt-1", folder / copy, fs::copy_options::recursive);
  fs::create_directory_symlink(folder / "attempt-1", folder / "attempt-1-link");
  EXPECT_EQ(old({.keep = 0, .age = std::chrono::seconds(0)}), Names{"attempt-1"});
}

/// Attempts of a forgotten job that are known by what agents wrote there.
class ForgottenAttempts : public OldAttempts {
 protected:
  Names forgotten(double days) const {
    Names names;
    for (const auto& path : forgotten_attempts(scratch_.path(), {job_.spec.id, kQueue}, seconds_of_days(days), now_))
      names.push_back(path.filename());
    return names;
  }
};

TEST_F(ForgottenAttempts, GoWhereAgentsOfThisQueueMadeThem) {
  add("attempt-2", 10);
  add("attempt-10", 9);
  add("attempt-3", 100, AttemptOwner{});
  add("attempt-4", 100, {job_.spec.id, "another"});
  add("attempt-5", 100, {"another", kQueue});
  add("notes", 100);
  std::ofstream(scratch_.path() / job_.spec.id / "attempt-5/attempt.json") << "{\"job\": [";
  EXPECT_EQ(forgotten(8), (Names{"attempt-2", "attempt-10"}));
}

TEST_F(ForgottenAttempts, StayAsLongAsAnyOfTheirJobIsYoung) {
  add("attempt-1", 10);
  add("attempt-2", 1);
  EXPECT_EQ(forgotten(2), Names{});
  EXPECT_EQ(forgotten(1), (Names{"attempt-1", "attempt-2"}));
}

TEST_F(ForgottenAttempts, TheRestOfARemovalGoes) {
  add("attempt-1.old-77.foretime-tmp", 0);
  EXPECT_EQ(forgotten(2), Names{"attempt-1.old-77.foretime-tmp"});
}

TEST(AttemptNames, AreExact) {
  const auto fence = [](const std::string& name) {
    const auto parsed = parse_attempt_name(name);
    return parsed ? parsed->fence : -1;
  };
  EXPECT_EQ(fence("attempt-12"), 12);
  EXPECT_EQ(fence("attempt-12-9fa_C"), 12);
  EXPECT_EQ(fence("attempt-12-9fa.old-3.foretime-tmp"), 12);
  EXPECT_TRUE(parse_attempt_name("attempt-12.old-3.foretime-tmp")->half_removed);
  EXPECT_EQ(parse_attempt_name("attempt-12.old-3.foretime-tmp")->name, "attempt-12");
  for (const auto* name : {"", "attempt", "attempt-", "attempt--1", "attempt-1x", "attempt-1-", "attempt-1 (copy)",
                           "attempt-1.keep", "attempt-1.old-3", "attempt-1.foretime-tmp", "attempt-1.old-.foretime-tmp",
                           "attempt-1-a b", "attempt-99999999999999999999", "xattempt-1", "Attempt-1", "attempt-1\n"})
    EXPECT_EQ(fence(name), -1) << name;
}

TEST_F(ForgottenAttempts, AreLookedForOnceAnHour) {
  EXPECT_TRUE(begin_cleaning(scratch_.path(), fs::file_time_type::clock::now()));
  const auto now = fs::file_time_type::clock::now();
  EXPECT_FALSE(begin_cleaning(scratch_.path(), now + std::chrono::minutes(59)));
  EXPECT_TRUE(begin_cleaning(scratch_.path(), now + std::chrono::minutes(61)));
}

}  // namespace
}  // namespace foretime::jobs
