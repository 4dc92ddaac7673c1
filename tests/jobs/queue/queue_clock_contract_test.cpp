#include <string>

#include <gmock/gmock.h>

#include "tests/jobs/queue/queue_contract.h"

/// Clocks of Redis that jump, and silences.
namespace foretime::jobs {
namespace {

constexpr int64_t kFortyDays = 40LL * 24 * 3600 * 1000;

// Promise redis/clock
TEST_P(QueueContract, AClockThatIsFortyDaysAheadForAWhileForgetsNothing) {
  EXPECT_TRUE(finish(leased("old"), Outcome::succeeded));
  queue().heartbeat_agent({"one", "host", "0.1", 7, 8, 2, 1, false});
  queue().reap();
  advance(kFortyDays);
  for (int i = 0; i < 200; ++i) {  // ten minutes of it
    EXPECT_EQ(queue().reap().expired, 0);
    queue().heartbeat_agent({"two", "host", "0.1", 7, 8, 2, 1, false});
    advance(3000);
  }
  EXPECT_TRUE(queue().find("old"));
  EXPECT_EQ(backend_->dump().at("agents").size(), 2U);
  EXPECT_TRUE(finish(leased("meanwhile"), Outcome::succeeded));
  advance(-kFortyDays);
  EXPECT_EQ(queue().reap().expired, 0);
  // Both are forgotten in their time, after 30 days by a clock that goes as it should.
  constexpr int64_t kStep = 24 * 60'000, kDay = 24LL * 3600 * 1000;
  int64_t passed = 0;
  for (; passed < 32 * kDay && (queue().find("old") || queue().find("meanwhile")); passed += kStep)
    advance(kStep), queue().reap();
  EXPECT_GT(passed, 29 * kDay);
  EXPECT_LT(passed, 31 * kDay);
}

// Promise redis/clock: a wrong clock of Redis forgets no job and makes no long lease
TEST_P(QueueContract, AClockThatIsFortyDaysAheadAtTheFirstReapingForgetsNothing) {
  EXPECT_TRUE(finish(leased("old"), Outcome::succeeded));
  EXPECT_TRUE(finish(leased("failed"), Outcome::failed));
  queue().submit(job_named("cancelled"));
  queue().cancel("cancelled");
  advance(kFortyDays);
  EXPECT_EQ(queue().reap().expired, 0);
  advance(-kFortyDays);
  EXPECT_EQ(queue().reap().expired, 0);
  for (const auto* id : {"old", "failed", "cancelled"}) EXPECT_TRUE(queue().find(id)) << id;
}

TEST_P(QueueContract, AClockThatIsSixteenDaysBehindForAWhileForgetsNothingWhenItReturns) {
  make({.keep_finished = Milliseconds(6LL * 3600 * 1000)});
  constexpr int64_t kDays = 16LL * 24 * 3600 * 1000, kHour = 3600 * 1000;
  EXPECT_TRUE(finish(leased("before"), Outcome::succeeded));
  const auto reap_for = [&](int64_t time, int64_t step) {
    int64_t forgotten = 0;
    for (int64_t passed = 0; passed < time; passed += step) advance(step), forgotten += queue().reap().expired;
    return forgotten;
  };
  EXPECT_EQ(reap_for(kHour, 30'000), 0);
  advance(-kDays);
  EXPECT_TRUE(finish(leased("meanwhile"), Outcome::succeeded));
  EXPECT_EQ(reap_for(100'000, 5000), 0);
  EXPECT_TRUE(finish(leased("later"), Outcome::succeeded));
  queue().heartbeat_agent({"one", "host", "0.1", 7, 8, 2, 1, false});
  EXPECT_EQ(backend_->dump().at("agents").size(), 1U);
  advance(kDays);
  EXPECT_EQ(reap_for(4 * kHour, 30'000), 0);
  for (const auto* id : {"before", "meanwhile", "later"}) EXPECT_TRUE(queue().find(id)) << id;
  EXPECT_EQ(reap_for(3 * kHour, 30'000), 3);
}

TEST_P(QueueContract, AClockThatWasAheadLeavesNoLongLeaseAndNoLongWait) {
  queue().submit(job_named("delayed"));
  queue().submit(job_named("renewed"));
  const auto delayed = claim().value(), renewed = claim().value();
  queue().reap();
  advance(kFortyDays);
  EXPECT_TRUE(finish(delayed, Outcome::error));
  EXPECT_EQ(queue().renew(renewed, Milliseconds(30000)), Directive::proceed);
  const auto claimed = leased("claimed");
  advance(-kFortyDays);
  queue().reap();
  EXPECT_EQ(backend_->dump().at("leases").at("claimed"), fmt::format("@{}", backend_->now() + 30000));
  EXPECT_LE(queue().find("delayed")->due_ms, backend_->now() + 3'600'000);
  // The holders are gone: their jobs wait again after a term, not after 40 days.
  for (int i = 0; i < 8; ++i) advance(5000), queue().reap();
  EXPECT_EQ(state("claimed"), JobState::waiting);
  EXPECT_EQ(state("renewed"), JobState::waiting);
  advance(3'600'000);
  queue().reap();
  EXPECT_EQ(state("delayed"), JobState::waiting);
}

TEST_P(QueueContract, AClockThatIsSetBackLosesNoLease) {
  const auto lease = leased("j");
  queue().reap();
  advance(-kFortyDays);
  queue().reap();
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(queue().renew(lease, Milliseconds(30000)), Directive::proceed);
    advance(10'000);
    EXPECT_EQ(queue().reap().lost_leases, 0);
  }
  EXPECT_TRUE(finish(lease, Outcome::succeeded));
}

/// A queue that nobody used for months is no reason to keep what is old for ever.
TEST_P(QueueContract, ALongSilenceIsMadeUpWithinTwoDays) {
  EXPECT_TRUE(finish(leased("old"), Outcome::succeeded));
  queue().reap();
  advance(kFortyDays);
  int64_t hours = 0;
  for (; queue().find("old") && hours < 60; ++hours)
    for (int minute = 0; minute < 60; ++minute) advance(60'000), queue().reap();
  EXPECT_GT(hours, 24);
  EXPECT_LT(hours, 40);
}

/// Otherwise a clock that was ahead for a while would keep logs for as long as it was ahead.
TEST_P(QueueContract, AClockThatReturnsDoesNotKeepLogs) {
  const auto lease = leased("j");
  queue().report(lease, {.log_lines = {"one", "two", "three"}});
  advance(40LL * 24 * 3600 * 1000);
  EXPECT_TRUE(finish(lease, Outcome::succeeded));
  advance(-40LL * 24 * 3600 * 1000);
  queue().reap();
  EXPECT_EQ(backend_->dump().at("job:j:log").size(), 3U);
  advance(60'000);
  queue().reap();
  EXPECT_EQ(backend_->dump().at("job:j:log").size(), 2U);
}

}  // namespace
}  // namespace foretime::jobs
