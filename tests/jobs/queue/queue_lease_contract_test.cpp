#include <map>
#include <numeric>
#include <string>

#include <fmt/format.h>

#include "tests/jobs/queue/queue_contract.h"
#include "tests/support/golden.h"

/// Leases that are lost, found again or given back, and what that costs a job.
namespace foretime::jobs {
namespace {

// Promise agents/leases-former-holder: a former holder of a lease writes nothing
TEST_P(QueueContract, OnlyTheNewestLeaseWrites) {
  const auto old = leased("j");
  advance(30001);
  claim();                                   // somebody else speaks, so that this is no outage
  EXPECT_EQ(queue().reap().lost_leases, 0);  // the silence was longer than half of the term: one more term
  advance(20000);
  EXPECT_EQ(queue().reap().lost_leases, 0);
  advance(10001);
  EXPECT_EQ(queue().reap().lost_leases, 1);
  EXPECT_MESSAGE(queue().find("j")->reason);
  const auto fresh = claim("b").value();
  EXPECT_EQ(fresh.fence, 2);
  EXPECT_EQ(fresh.attempt, 1);  // the loss was not the job's doing
  EXPECT_EQ(queue().renew(old, Milliseconds(1000)), Directive::lost);
  EXPECT_EQ(queue().report(old, {}), Directive::lost);
  EXPECT_FALSE(queue().propose(old, {}));
  EXPECT_FALSE(finish(old, Outcome::succeeded));
  EXPECT_EQ(queue().find("j")->results, 0);
  auto forged = fresh;
  forged.token = "other";
  EXPECT_FALSE(finish(forged, Outcome::failed));
  EXPECT_TRUE(finish(fresh, Outcome::succeeded));
  EXPECT_EQ(queue().find("j")->results, 1);
  EXPECT_FALSE(finish(old, Outcome::succeeded));
}

TEST_P(QueueContract, OnlyASilenceOfMoreThanHalfATermIsForgiven) {
  for (const int64_t silence : {15'001, 15'000}) {
    const auto lease = leased(fmt::format("j{}", silence));
    advance(30'001 - silence);
    queue().reap();
    advance(silence);
    EXPECT_EQ(queue().reap().lost_leases, silence > 15'000 ? 0 : 1) << silence;
    finish(lease, Outcome::succeeded);
  }
}

TEST_P(QueueContract, AnExpiredLeaseThatNobodyReapedIsRenewed) {
  const auto lease = leased("j");
  advance(3600'000);
  EXPECT_EQ(queue().renew(lease, Milliseconds(5000)), Directive::proceed);
  EXPECT_EQ(queue().reap().lost_leases, 0);
  EXPECT_TRUE(finish(lease, Outcome::succeeded));
}

TEST_P(QueueContract, ADeadHolderIsFoundWhileOthersSpeak) {
  leased("j");
  for (int i = 0; i < 7; ++i) {
    advance(5000);
    EXPECT_EQ(queue().reap().lost_leases, i == 6 ? 1 : 0);
  }
  EXPECT_EQ(state("j"), JobState::waiting);
}

TEST_P(QueueContract, AnOutageIsForgivenOnceForEachRenewal) {
  const auto lease = leased("j");
  for (int outage = 0; outage < 3; ++outage) {
    advance(600'000);
    EXPECT_EQ(queue().reap().lost_leases, 0);
    EXPECT_EQ(queue().renew(lease, Milliseconds(30000)), Directive::proceed);
  }
  advance(600'000);
  EXPECT_EQ(queue().reap().lost_leases, 0);
  advance(600'000);
  EXPECT_EQ(queue().reap().lost_leases, 1);
}

TEST_P(QueueContract, ErrorsAreTriedAgainWithBackOffAndThenTheJobIsDead) {
  make({.backoff_base = Milliseconds(1000), .backoff_cap = Milliseconds(1500)});
  auto lease = leased("j");
  JobResult result{
      .outcome = Outcome::error, .checkpoint = "runs/j/1", .error = "signal 11\nlast line", .exit_code = 139};
  EXPECT_TRUE(queue().finish(lease, result, 0.5));
  EXPECT_EQ(state("j"), JobState::delayed);
  EXPECT_EQ(queue().find("j")->due_ms, backend_->now() + 750);
  EXPECT_EQ(queue().find("j")->error, result.error);
  EXPECT_FALSE(claim());
  advance(750);
  lease = claim().value();
  EXPECT_EQ(lease.attempt, 2);
  EXPECT_EQ(lease.checkpoint, "runs/j/1");
  EXPECT_EQ(lease.failed_on, "a");
  EXPECT_TRUE(queue().finish(lease, result, 0));
  EXPECT_EQ(queue().find("j")->due_ms, backend_->now() + 750);  // half of the cap
  advance(749);
  EXPECT_EQ(queue().reap().promoted, 0);
  advance(1);
  EXPECT_EQ(queue().reap().promoted, 1);
  lease = claim("b").value();
  EXPECT_TRUE(queue().finish(lease, result, 0));
  EXPECT_EQ(state("j"), JobState::dead);
  EXPECT_EQ(queue().find("j")->failed_on, "a") << "the first to see it fail";
  EXPECT_EQ(queue().find("j")->failures, 3);
  EXPECT_EQ(queue().find("j")->reason, "failed 3 times");
}

// Promise agents/leases-lost: lost leases and preemptions are counted apart from a job's own failures, and have bounds
TEST_P(QueueContract, LostLeasesAreCountedApartFromTheJobsOwnFailures) {
  make({.loss_backoff_cap = Milliseconds(3000), .most_losses = 4});
  auto spec = job_named("j");
  spec.max_attempts = 2;
  queue().submit(spec);
  const auto lose = [&](int64_t step) {
    const auto lease = claim("killer").value();
    EXPECT_EQ(lease.attempt, 1);
    if (step > 0) queue().report(lease, {.step = step, .total_steps = 100});
    for (int k = 0; k < 8; ++k) advance(5000), queue().reap();
  };
  for (int i = 1; i < 4; ++i) {
    lose(0);
    EXPECT_EQ(queue().find("j")->lost, i);
    EXPECT_EQ(queue().find("j")->failures, 0);
  }
  lose(10);  // it got further than before: what was lost until now does not add up
  EXPECT_EQ(queue().find("j")->lost, 1);
  EXPECT_EQ(state("j"), JobState::waiting);
  for (int i = 0; i < 3; ++i) lose(10);
  EXPECT_EQ(state("j"), JobState::dead);
  EXPECT_MESSAGE(queue().find("j")->error);
  queue().retry("j");
  EXPECT_EQ(queue().find("j")->lost, 0);
  EXPECT_EQ(claim()->attempt, 1);
}

/// A loss of power takes all agents: that says nothing about the jobs that they ran.
// Promise agents/machines-power-loss: a loss of power of several agents does not count against their jobs
TEST_P(QueueContract, LossesThatSeveralAgentsShareAreNotTheDoingOfTheirJobs) {
  make({.loss_backoff_cap = Milliseconds(3000), .most_losses = 3});
  for (const auto* id : {"j", "k"}) queue().submit(job_named(id));
  // Two agents die, one of them after a renewal that the other did not come to: their leases end at different times.
  const auto round = [&] {
    advance(5000);
    const auto first = claim("a").value(), second = claim("b").value();
    advance(5000);
    EXPECT_EQ(queue().renew(second, Milliseconds(30000)), Directive::proceed);
    for (int k = 0; k < 8; ++k) advance(5000), queue().reap();
    return std::pair(state(first.job), state(second.job));
  };
  for (int i = 1; i < 30; ++i) {
    const auto [first, second] = round();
    ASSERT_FALSE(is_final(first)) << i;
    ASSERT_FALSE(is_final(second)) << i;
    EXPECT_EQ(queue().find("j")->lost, i);
  }
  round();
  EXPECT_EQ(state("j"), JobState::dead) << "not for ever";
  EXPECT_EQ(queue().find("k")->error.substr(0, 43), "lease lost 30 times in a row without progre");

  // An agent that dies alone, time after time, dies of its job.
  for (const auto* id : {"j", "k"}) queue().retry(id);
  auto other = claim("c").value();
  for (int i = 0; i < 3; ++i) {
    advance(5000);
    claim("a").value();
    for (int k = 0; k < 8; ++k) {
      advance(5000);
      EXPECT_EQ(queue().renew(other, Milliseconds(30000)), Directive::proceed);
      queue().reap();
    }
  }
  EXPECT_EQ(state(other.job == "j" ? "k" : "j"), JobState::dead);
}

TEST_P(QueueContract, AgentsThatAreGoneAtOneReapingShareTheirLossesHoweverLateItComes) {
  make({.most_losses = 1});
  for (const auto* id : {"j", "k"}) queue().submit(job_named(id));
  const auto first = claim("a").value(), second = claim("b").value();
  for (int seconds = 5; seconds <= 75; seconds += 5) {
    advance(5000);
    if (seconds == 45) {
      EXPECT_EQ(queue().renew(second, Milliseconds(30000)), Directive::proceed);
    }
    queue().heartbeat_agent({"c", "host", "1", 1, 0, 0, 0, false});  // so that this is no outage
  }
  advance(1);
  EXPECT_EQ(queue().reap().lost_leases, 2);
  for (const auto& lease : {first, second}) EXPECT_EQ(state(lease.job), JobState::waiting) << lease.agent;
}

/// Losses in a row end a job: without delays between them, one hour of a bad network would.
TEST_P(QueueContract, AJobWhoseLeaseIsLostAgainAndAgainWaitsLongerAndLonger) {
  make({.loss_backoff_cap = Milliseconds(8000), .most_losses = 6});
  queue().submit(job_named("j"));
  std::vector<int64_t> waits;
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(queue().claim({"a", fmt::format("token{}", i), 1, 0, Milliseconds(2000)}));
    for (int k = 0; state("j") == JobState::active; ++k) advance(900), queue().reap();
    waits.push_back(std::max<int64_t>(0, queue().find("j")->due_ms - backend_->now()));
    if (waits.back() == 0) continue;
    advance(waits.back() - 1);
    EXPECT_FALSE(claim("b"));
    advance(1);
  }
  const std::vector<int64_t> most = {0, 1000, 2000, 4000, 8000};
  for (size_t i = 0; i < most.size(); ++i) {
    EXPECT_GE(waits[i], most[i] / 2);
    EXPECT_LE(waits[i], most[i]);
  }
}

/// One that takes its agent down would otherwise take its neighbours with it ten times, and they would be dead.
/// Each letter of their names counts.
TEST_P(QueueContract, JobsThatLostTheirLeasesTogetherComeBackApart) {
  make({.loss_backoff_cap = Milliseconds(100'000), .most_losses = 3});
  queue().submit(job_named("a-neighbour"));
  queue().submit(job_named("b-neighbour"));
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(claim());
    ASSERT_TRUE(claim());
    for (int k = 0; state("b-neighbour") == JobState::active; ++k) advance(5000), queue().reap();
  }
  EXPECT_GT(std::abs(queue().find("a-neighbour")->due_ms - queue().find("b-neighbour")->due_ms), 1000);
}

/// Also after many losses: these two once came back within 1 % of their waits each time.
TEST_P(QueueContract, JobsThatCameBackCloselyOnceDoNotDoSoAgain) {
  make({.loss_backoff_cap = Milliseconds(1'000'000), .most_losses = 10});
  const std::vector<std::string> ids = {"545db0c3e6222889", "8b9e331dc3f0ce39"};
  for (const auto& id : ids) queue().submit(job_named(id));
  int apart = 0;
  for (int losses = 1; losses < 9; ++losses) {
    ASSERT_TRUE(claim());
    ASSERT_TRUE(claim());
    for (int k = 0; state(ids[1]) == JobState::active; ++k) advance(5000), queue().reap();
    const double waits[] = {static_cast<double>(queue().find(ids[0])->due_ms - backend_->now()),
                            static_cast<double>(queue().find(ids[1])->due_ms - backend_->now())};
    if (std::abs(waits[0] - waits[1]) > 0.03 * std::max(waits[0], waits[1])) ++apart;
    advance(static_cast<int64_t>(std::max({waits[0], waits[1], 0.0})) + 1);
    queue().reap();
  }
  EXPECT_GE(apart, 6);
}

TEST_P(QueueContract, ALostLeaseComesBackToItsHolderWhileNobodyTookTheJob) {
  const auto lose = [&] {
    for (int k = 0; k < 7; ++k) advance(5000), queue().reap();
  };
  const auto lease = leased("j");
  lose();
  ASSERT_EQ(state("j"), JobState::waiting);
  EXPECT_EQ(queue().renew(lease, Milliseconds(30000)), Directive::proceed);
  EXPECT_EQ(state("j"), JobState::active);
  EXPECT_EQ(queue().find("j")->lost, 0);  // the holder lives: nothing was lost
  EXPECT_EQ(queue().find("j")->reason, "");
  EXPECT_FALSE(claim("b"));
  // The right ends where somebody else has the job, and with the attempt.
  lose();
  const auto fresh = claim("b").value();
  EXPECT_EQ(queue().renew(lease, Milliseconds(30000)), Directive::lost);
  EXPECT_TRUE(finish(fresh, Outcome::error));
  EXPECT_EQ(queue().renew(fresh, Milliseconds(30000)), Directive::lost);
  EXPECT_EQ(state("j"), JobState::delayed);
  // A result counts as well, and is written once.
  advance(600'000);
  const auto last = claim("c").value();
  lose();
  EXPECT_TRUE(finish(last, Outcome::succeeded));
  EXPECT_TRUE(finish(last, Outcome::succeeded));
  EXPECT_EQ(queue().find("j")->results, 1);
  const auto preempted = leased("drained");
  EXPECT_TRUE(finish(preempted, Outcome::preempted));
  EXPECT_EQ(queue().report(preempted, {}), Directive::lost);
  EXPECT_EQ(state("drained"), JobState::waiting);
}

// Promise agents/leases-lost
TEST_P(QueueContract, PreemptionsThatNobodyAskedForBackOffAndHaveABound) {
  make({.backoff_base = Milliseconds(1000), .backoff_cap = Milliseconds(4000), .most_preemptions = 4});
  queue().submit(job_named("j"));
  const JobResult unasked{.outcome = Outcome::preempted, .exit_code = 75, .unasked = true};
  const auto preempt = [&](int64_t step, int64_t wait) {
    const auto lease = claim().value();
    queue().report(lease, {.step = step, .total_steps = 100});
    EXPECT_TRUE(queue().finish(lease, unasked, 0));
    if (wait == 0) return;
    EXPECT_EQ(state("j"), JobState::delayed);
    EXPECT_EQ(queue().find("j")->due_ms, backend_->now() + wait);
    EXPECT_FALSE(claim());
    advance(wait);
  };
  preempt(0, 500);
  preempt(0, 1000);
  preempt(0, 2000);
  preempt(5, 500);  // it got further: the count starts again
  EXPECT_EQ(queue().find("j")->preemptions, 1);
  preempt(5, 1000);
  preempt(3, 2000);
  preempt(5, 0);
  const auto record = queue().find("j").value();
  EXPECT_EQ(record.state, JobState::dead);
  EXPECT_EQ(record.failures, 0);
  EXPECT_MESSAGE(record.reason);
  EXPECT_EQ(record.error, record.reason);
  // What is known of the cause is kept.
  const auto full = leased("full");
  const JobResult by_storage{
      .outcome = Outcome::preempted, .error = "exit code 74: no room", .exit_code = 74, .unasked = true};
  EXPECT_TRUE(queue().finish(full, by_storage, 0));
  for (int i = 0; i < 3; ++i) {
    advance(4000);
    EXPECT_TRUE(queue().finish(claim().value(), by_storage, 0));
  }
  EXPECT_EQ(state("full"), JobState::dead);
  EXPECT_EQ(queue().find("full")->failures, 0);
  EXPECT_MESSAGE(queue().find("full")->error);
  // Agents that drain may do so as often as they like.
  const auto lease = leased("drained");
  EXPECT_TRUE(finish(lease, Outcome::preempted));
  for (int i = 0; i < 30; ++i) EXPECT_TRUE(finish(claim().value(), Outcome::preempted));
  EXPECT_EQ(state("drained"), JobState::waiting);
  EXPECT_EQ(queue().find("drained")->preemptions, 0);
}

}  // namespace
}  // namespace foretime::jobs
