#include "tests/jobs/queue/queue_contract.h"

#include <limits>
#include <map>
#include <numeric>
#include <tuple>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/support/message_of.h"

namespace foretime::jobs {
namespace {

using ::testing::HasSubstr;

TEST_P(QueueContract, WhatWaitsIsCountedByWhatItNeeds) {
  EXPECT_TRUE(queue().waiting().empty());
  EXPECT_TRUE(queue().none_in({JobState::waiting, JobState::active}));
  for (const auto* name : {"a", "b", "c"}) {
    auto spec = job_named(name);
    spec.resources = {*name == 'c' ? 2 : 1, 3, 1};
    queue().submit(spec);
  }
  using Demands = std::map<Demand, int64_t>;
  EXPECT_EQ(queue().waiting(), (Demands{{{3, 1}, 2}, {{6, 2}, 1}}));
  ASSERT_TRUE(claim("agent", 3, 1));
  EXPECT_EQ(queue().waiting(), (Demands{{{3, 1}, 1}, {{6, 2}, 1}}));
  EXPECT_FALSE(queue().none_in({JobState::blocked, JobState::active}));
  EXPECT_TRUE(queue().none_in({JobState::blocked, JobState::dead}));
}

TEST_P(QueueContract, WhatIsSubmittedComesBackWithTheLease) {
  auto spec = job_named("j");
  spec.kind = JobKind::evaluate;
  spec.settings = "files: ['a b', \"c\"]\n# \xc3\xa9\n";
  spec.parameters = {{"a.b", "1\n2"}, {"c", ""}};
  spec.maximize = false;
  spec.resources = {2, 3, 1};
  spec.priority = -7;
  spec.max_attempts = 5;
  EXPECT_TRUE(queue().submit(spec));
  EXPECT_FALSE(queue().submit(spec));
  const auto lease = claim("agent 7", 6, 2).value();
  EXPECT_EQ(lease.job, "j");
  EXPECT_EQ(lease.agent, "agent 7");
  EXPECT_EQ(lease.fence, 1);
  EXPECT_EQ(lease.attempt, 1);
  EXPECT_EQ(lease.deadline_ms, backend_->now() + 30000);
  EXPECT_TRUE(lease.spec == spec);
  EXPECT_FALSE(claim());
  EXPECT_FALSE(queue().find("other"));
}

TEST_P(QueueContract, PriorityThenAgeThenWhatFits) {
  for (const auto* id : {"first", "second", "urgent", "large", "gpu"}) {
    auto spec = job_named(id);
    if (std::string(id) == "urgent") spec.priority = 5;
    if (std::string(id) == "large") spec.priority = 9, spec.resources.cpus = 16;
    if (std::string(id) == "gpu") spec.priority = 9, spec.resources.gpus = 1;
    queue().submit(spec);
  }
  queue().set_priority("second", 1);
  EXPECT_EQ(claim()->job, "urgent");
  EXPECT_EQ(claim()->job, "second");
  EXPECT_EQ(claim()->job, "first");
  EXPECT_FALSE(claim());
  EXPECT_EQ(claim("a", 1, 1)->job, "gpu");
  EXPECT_EQ(claim("a", 16)->job, "large");
}

JobSpec elastic_job(const std::string& id, int64_t least, int64_t most, int64_t cpus = 1, int64_t gpus = 0) {
  auto spec = job_named(id);
  spec.resources = {.ranks = least, .cpus = cpus, .gpus = gpus, .most_ranks = most};
  return spec;
}

TEST_P(QueueContract, AnElasticJobTakesTheRanksThatAreFree) {
  EXPECT_TRUE(queue().submit(elastic_job("j", 2, 8)));
  EXPECT_EQ(queue().waiting(), (std::map<Demand, int64_t>{{{2, 0}, 1}}));
  EXPECT_EQ(queue().find("j")->attempt_ranks, 0);
  EXPECT_FALSE(claim("agent", 1)) << "below its least";
  for (const auto& [free, ranks] : std::map<int64_t, int64_t>{{2, 2}, {5, 5}, {8, 8}, {64, 8}}) {
    const auto lease = claim("agent", free).value();
    EXPECT_EQ(lease.ranks, ranks);
    EXPECT_EQ(lease.resources(), (Resources{.ranks = ranks}));
    EXPECT_EQ(lease.spec.resources, (Resources{.ranks = 2, .most_ranks = 8}));
    EXPECT_EQ(queue().find("j")->attempt_ranks, ranks);
    EXPECT_TRUE(queue().finish(lease, {.outcome = Outcome::preempted}, 0));
  }
  const auto lease = claim("agent", 3).value();
  EXPECT_TRUE(queue().finish(lease, {}, 0));
  EXPECT_EQ(queue().find("j")->spec.resources.most_ranks, 8);
  EXPECT_EQ(queue().find("j")->attempt_ranks, 3);
}

TEST_P(QueueContract, TheRanksOfAnElasticJobHaveTheirCpusAndGpus) {
  queue().submit(elastic_job("j", 2, 8, 3, 1));
  EXPECT_FALSE(claim("agent", 5, 4));
  EXPECT_FALSE(claim("agent", 24, 1));
  const auto by_cpus = claim("agent", 11, 8).value();
  EXPECT_EQ(by_cpus.resources(), (Resources{.ranks = 3, .cpus = 3, .gpus = 1}));
  EXPECT_TRUE(queue().finish(by_cpus, {.outcome = Outcome::preempted}, 0));
  EXPECT_EQ(claim("agent", 24, 5)->ranks, 5);
}

TEST_P(QueueContract, AClaimOfAnElasticJobWhoseAnswerWasLostGivesTheSameRanks) {
  queue().submit(elastic_job("j", 1, 8));
  const auto first = queue().claim({"agent", "token", 3, 0, Milliseconds(1000)}).value();
  EXPECT_EQ(first.ranks, 3);
  EXPECT_EQ(queue().claim({"agent", "token", 6, 0, Milliseconds(1000)})->ranks, 3);
}

TEST_P(QueueContract, ALeaseThatComesBackKeepsTheRanksOfItsAttempt) {
  queue().submit(elastic_job("j", 1, 8));
  const auto lease = claim("agent", 5).value();
  advance(20000);
  queue().reap();  // somebody else speaks, so that this is no outage
  advance(10001);
  ASSERT_EQ(queue().reap().lost_leases, 1);
  EXPECT_EQ(queue().renew(lease, Milliseconds(1000)), Directive::proceed);
  EXPECT_EQ(queue().find("j")->attempt_ranks, 5);
}

/// A rank is on one host.
TEST_P(QueueContract, RanksFitTheHostsOfAnAgent) {
  auto claim_on = [&, n = 0](std::vector<int64_t> hosts) mutable {
    const auto sum = std::accumulate(hosts.begin(), hosts.end(), int64_t{0});
    return queue().claim({"agent", fmt::format("hosts{}", ++n), sum, 0, Milliseconds(30000), std::move(hosts)});
  };
  queue().submit(elastic_job("wide", 2, 8, 2));
  auto narrow = job_named("narrow");
  narrow.resources = {.ranks = 4};
  queue().submit(narrow);
  EXPECT_EQ(claim_on({1, 1, 1, 1})->job, "narrow") << "behind one of as many CPUs that has no room";
  EXPECT_FALSE(claim_on({3, 1, 1}));
  const auto lease = claim_on({3, 0, 5}).value();
  EXPECT_EQ(lease.job, "wide");
  EXPECT_EQ(lease.ranks, 3);
  EXPECT_THROW(queue().claim({"agent", "t", 4, 0, Milliseconds(1000), {2, 1}}), JobsError);
}

TEST_P(QueueContract, PrioritiesOfEverySizeKeepTheirOrder) {
  for (const int64_t priority : {-4000, -1, 0, 1, 4000}) {
    auto spec = job_named(fmt::format("p{}", priority + 4000));
    spec.priority = priority;
    queue().submit(spec);
    spec.id.insert(0, "later");  // before the other one by name
    queue().submit(spec);
  }
  for (const auto* id :
       {"p8000", "laterp8000", "p4001", "laterp4001", "p4000", "laterp4000", "p3999", "laterp3999", "p0", "laterp0"})
    EXPECT_EQ(claim()->job, id);
}

TEST_P(QueueContract, AClaimWhoseAnswerWasLostGivesTheSameLease) {
  queue().submit(job_named("a"));
  queue().submit(job_named("b"));
  const ClaimRequest request{"agent", "token", 4, 0, Milliseconds(1000)};
  const auto first = queue().claim(request).value();
  queue().pause("");
  const auto again = queue().claim(request).value();
  EXPECT_EQ(again.job, first.job);
  EXPECT_EQ(again.fence, first.fence);
  EXPECT_EQ(again.deadline_ms, first.deadline_ms);
  EXPECT_EQ(state("b"), JobState::waiting);
}

TEST_P(QueueContract, OnlyTheNewestLeaseWrites) {
  const auto old = leased("j");
  advance(30001);
  claim();                                   // somebody else speaks, so that this is no outage
  EXPECT_EQ(queue().reap().lost_leases, 0);  // the silence was longer than half of the term: one more term
  advance(20000);
  EXPECT_EQ(queue().reap().lost_leases, 0);
  advance(10001);
  EXPECT_EQ(queue().reap().lost_leases, 1);
  EXPECT_EQ(queue().find("j")->reason, "lease lost by a");
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
  EXPECT_EQ(queue().find("j")->error, "lease lost 4 times in a row without progress, last by killer");
  queue().retry("j");
  EXPECT_EQ(queue().find("j")->lost, 0);
  EXPECT_EQ(claim()->attempt, 1);
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
TEST_P(QueueContract, JobsThatLostTheirLeasesTogetherComeBackApart) {
  make({.loss_backoff_cap = Milliseconds(100'000), .most_losses = 3});
  queue().submit(job_named("killer"));
  queue().submit(job_named("neighbour"));
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(claim());
    ASSERT_TRUE(claim());
    for (int k = 0; state("neighbour") == JobState::active; ++k) advance(5000), queue().reap();
  }
  EXPECT_GT(std::abs(queue().find("killer")->due_ms - queue().find("neighbour")->due_ms), 1000);
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
  EXPECT_EQ(record.reason, "preempted 4 times in a row without progress, last on a");
  // Agents that drain may do so as often as they like.
  const auto lease = leased("drained");
  EXPECT_TRUE(finish(lease, Outcome::preempted));
  for (int i = 0; i < 30; ++i) EXPECT_TRUE(finish(claim().value(), Outcome::preempted));
  EXPECT_EQ(state("drained"), JobState::waiting);
  EXPECT_EQ(queue().find("drained")->preemptions, 0);
}

constexpr int64_t kFortyDays = 40LL * 24 * 3600 * 1000;

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

TEST_P(QueueContract, AResultSaysThatThePublishedCheckpointIsGone) {
  const auto lease = leased("j");
  JobReport report;
  report.checkpoint = "j/attempt-1/checkpoints/step-2";
  queue().report(lease, report);
  EXPECT_TRUE(queue().finish(lease, {.outcome = Outcome::stopped, .checkpoint = kNoCheckpoint}, 0));
  EXPECT_EQ(queue().find("j")->checkpoint, "");
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

TEST_P(QueueContract, FinishIsDoneOnce) {
  const auto lease = leased("j");
  JobResult result{.metrics = {{"opa", 0.1}, {"nan", std::numeric_limits<double>::quiet_NaN()}},
                   .objective = 0.1,
                   .checkpoint = "runs/j/best",
                   .seconds = 1.25};
  EXPECT_TRUE(queue().finish(lease, result, 0));
  EXPECT_TRUE(queue().finish(lease, result, 0));
  const auto record = queue().find("j").value();
  EXPECT_EQ(record.state, JobState::succeeded);
  EXPECT_EQ(record.results, 1);
  EXPECT_EQ(record.objective, 0.1);
  EXPECT_EQ(record.best_objective, 0.1);
  EXPECT_EQ(record.metrics, (std::map<std::string, double>{{"opa", 0.1}}));
  EXPECT_EQ(record.checkpoint, "runs/j/best");
  EXPECT_EQ(record.seconds, 1.25);
  EXPECT_EQ(record.finished_ms, backend_->now());
  EXPECT_EQ(queue().renew(lease, Milliseconds(1)), Directive::lost);
}

TEST_P(QueueContract, AnEndAndTheNextClaimAreOneCall) {
  const auto first = leased("first");
  queue().submit(job_named("second"));
  const ClaimRequest request{"b", "next", 8, 0, Milliseconds(20000)};
  const JobResult result{.metrics = {{"opa", 0.5}}, .objective = 0.5, .checkpoint = "runs/first/1", .seconds = 2};
  const auto done = queue().finish_and_claim(first, result, 0, request);
  EXPECT_TRUE(done.finished);
  ASSERT_TRUE(done.next);
  EXPECT_EQ(done.next->job, "second");
  EXPECT_EQ(done.next->agent, "b");
  EXPECT_EQ(done.next->fence, 1);
  EXPECT_EQ(done.next->token, "next");
  EXPECT_EQ(done.next->deadline_ms, backend_->now() + 20000);
  EXPECT_TRUE(done.next->spec == job_named("second"));
  EXPECT_EQ(queue().find("first")->objective, 0.5);
  // The answer was lost: nothing is done twice.
  const auto again = queue().finish_and_claim(first, result, 0, request);
  EXPECT_TRUE(again.finished);
  EXPECT_EQ(again.next.value().job, "second");
  EXPECT_EQ(again.next->fence, 1);
  EXPECT_EQ(queue().find("first")->results, 1);
  const auto last = queue().finish_and_claim(*done.next, {}, 0, {"b", "last", 8, 0, Milliseconds(20000)});
  EXPECT_TRUE(last.finished);
  EXPECT_FALSE(last.next);
  EXPECT_EQ(state("second"), JobState::succeeded);
}

TEST_P(QueueContract, ALostLeaseWritesNothingAndItsSlotClaimsAllTheSame) {
  const auto old = leased("j");
  for (int k = 0; k < 7; ++k) advance(5000), queue().reap();
  EXPECT_EQ(claim("c")->fence, 2);
  queue().submit(job_named("k"));
  const auto done = queue().finish_and_claim(old, {}, 0, {"b", "next", 8, 0, Milliseconds(20000)});
  EXPECT_FALSE(done.finished);
  ASSERT_TRUE(done.next);
  EXPECT_EQ(done.next->job, "k");
  EXPECT_EQ(queue().find("j")->results, 0);
}

TEST_P(QueueContract, TheClaimAfterAnEndSeesWhatThatEndLeft) {
  auto child = job_named("child");
  const auto parent = leased("parent");
  child.after = {"parent"};
  queue().submit(child);
  auto done = queue().finish_and_claim(parent, {}, 0, {"a", "one", 8, 0, Milliseconds(20000)});
  ASSERT_TRUE(done.next);
  EXPECT_EQ(done.next->job, "child");
  // A preempted job waits again at its place; a failed attempt waits for its back-off; a paused queue gives nothing.
  done =
      queue().finish_and_claim(*done.next, {.outcome = Outcome::preempted}, 0, {"a", "two", 8, 0, Milliseconds(20000)});
  ASSERT_TRUE(done.next);
  EXPECT_EQ(done.next->job, "child");
  done =
      queue().finish_and_claim(*done.next, {.outcome = Outcome::error}, 0, {"a", "three", 8, 0, Milliseconds(20000)});
  EXPECT_TRUE(done.finished);
  EXPECT_FALSE(done.next);
  EXPECT_EQ(state("child"), JobState::delayed);
  advance(600'000);
  const auto lease = claim().value();
  queue().submit(job_named("waits"));
  queue().pause("");
  done = queue().finish_and_claim(lease, {}, 0, {"a", "four", 8, 0, Milliseconds(20000)});
  EXPECT_TRUE(done.finished);
  EXPECT_FALSE(done.next);
}

TEST_P(QueueContract, EveryOutcomeHasItsState) {
  for (const auto& [outcome, expected] :
       std::vector<std::pair<Outcome, JobState>>{{Outcome::succeeded, JobState::succeeded},
                                                 {Outcome::stopped, JobState::succeeded},
                                                 {Outcome::cancelled, JobState::cancelled},
                                                 {Outcome::error, JobState::delayed},
                                                 {Outcome::failed, JobState::failed},
                                                 {Outcome::preempted, JobState::waiting}}) {
    const auto lease = leased(to_string(outcome));
    EXPECT_TRUE(finish(lease, outcome));
    EXPECT_EQ(state(lease.job), expected);
    EXPECT_EQ(queue().find(lease.job)->stopped, outcome == Outcome::stopped);
  }
}

TEST_P(QueueContract, APreemptedJobKeepsItsPlaceAndItsAttempts) {
  const auto lease = leased("first");
  queue().submit(job_named("second"));
  EXPECT_TRUE(finish(lease, Outcome::preempted));
  const auto again = claim().value();
  EXPECT_EQ(again.job, "first");
  EXPECT_EQ(again.attempt, 1);
  EXPECT_EQ(again.fence, 2);
}

TEST_P(QueueContract, ReportsAreKept) {
  const auto lease = leased("j");
  JobReport report{.step = 3,
                   .total_steps = 10,
                   .eta_seconds = 1.5,
                   .loss = std::numeric_limits<double>::quiet_NaN(),
                   .iteration = 1,
                   .objective = 0.25,
                   .metrics = {{"opa", 0.25}},
                   .checkpoint = "runs/c1",
                   .log_lines = {"one", std::string(5000, 'x')}};
  EXPECT_EQ(queue().report(lease, report), Directive::proceed);
  report.objective = 0.125;
  report.checkpoint.clear();
  report.log_lines.assign(230, "more");
  EXPECT_EQ(queue().report(lease, report), Directive::proceed);
  const auto record = queue().find("j").value();
  EXPECT_EQ(record.step, 3);
  EXPECT_EQ(record.total_steps, 10);
  EXPECT_EQ(record.eta_seconds, 1.5);
  EXPECT_TRUE(std::isnan(record.loss));
  EXPECT_EQ(record.objective, 0.125);
  EXPECT_EQ(record.best_objective, 0.25);
  EXPECT_EQ(record.checkpoint, "runs/c1");
  EXPECT_EQ(record.log_lines, 232);
  EXPECT_EQ(backend_->dump().at("job:j:log").size(), 200U);
}

TEST_P(QueueContract, PauseAndResumeOfTheWholeQueue) {
  const auto lease = leased("a");
  queue().submit(job_named("b"));
  queue().pause("");
  EXPECT_FALSE(claim());
  EXPECT_EQ(queue().renew(lease, Milliseconds(1000)), Directive::proceed);
  queue().resume("");
  EXPECT_EQ(claim()->job, "b");
}

TEST_P(QueueContract, CancelFromEveryState) {
  const auto lease = leased("active");
  queue().submit(job_named("waiting"));
  EXPECT_EQ(queue().cancel("waiting"), CancelOutcome::cancelled);
  EXPECT_EQ(queue().cancel("waiting"), CancelOutcome::already_final);
  EXPECT_EQ(queue().cancel("active"), CancelOutcome::requested);
  EXPECT_EQ(queue().cancel("active"), CancelOutcome::requested);
  EXPECT_EQ(state("active"), JobState::active);
  EXPECT_EQ(queue().renew(lease, Milliseconds(1000)), Directive::cancel);
  EXPECT_EQ(queue().report(lease, {}), Directive::cancel);
  EXPECT_TRUE(finish(lease, Outcome::cancelled));
  EXPECT_EQ(state("active"), JobState::cancelled);
  EXPECT_THAT(refusal([&] { queue().cancel("nothing"); }), HasSubstr("nothing is unknown"));
}

TEST_P(QueueContract, ACancelRequestDecidesHowAnAttemptEnds) {
  for (const auto& [outcome, expected] :
       std::vector<std::pair<Outcome, JobState>>{{Outcome::succeeded, JobState::succeeded},
                                                 {Outcome::error, JobState::cancelled},
                                                 {Outcome::preempted, JobState::cancelled},
                                                 {Outcome::failed, JobState::failed}}) {
    const auto lease = leased(to_string(outcome));
    queue().cancel(lease.job);
    EXPECT_TRUE(finish(lease, outcome));
    EXPECT_EQ(state(lease.job), expected);
    EXPECT_FALSE(queue().find(lease.job)->cancel_requested);
  }
  leased("lost");
  queue().cancel("lost");
  for (int k = 0; k < 7; ++k) advance(5000), queue().reap();
  EXPECT_EQ(state("lost"), JobState::cancelled);
}

TEST_P(QueueContract, RetryStartsAfresh) {
  EXPECT_TRUE(finish(leased("j"), Outcome::failed, "bad settings"));
  queue().retry("j");
  EXPECT_EQ(state("j"), JobState::waiting);
  EXPECT_EQ(queue().find("j")->error, "");
  const auto lease = claim().value();
  EXPECT_EQ(lease.attempt, 1);
  EXPECT_EQ(lease.fence, 2);
  EXPECT_THAT(refusal([&] { queue().retry("j"); }), HasSubstr("is active"));
  EXPECT_TRUE(finish(lease, Outcome::succeeded));
  EXPECT_THAT(refusal([&] { queue().retry("j"); }), HasSubstr("is succeeded"));
  EXPECT_THAT(refusal([&] { queue().set_priority("j", 1); }), HasSubstr("ended as succeeded"));
  EXPECT_THAT(refusal([&] { queue().retry("nothing"); }), HasSubstr("unknown"));
}

TEST_P(QueueContract, FinishedJobsAreForgottenAfterTheirTime) {
  make({.keep_finished = Milliseconds(10000)});
  create("s", {{1}, 2});
  queue().submit(trial("s", 0));
  auto needs = trial("s", 1);
  needs.after = {"s-0"};
  queue().submit(needs);
  JobReport report{.iteration = 1, .objective = 1, .log_lines = {"line"}};
  const auto lease = claim().value();
  queue().report(lease, report);
  EXPECT_TRUE(finish(lease, Outcome::failed));
  advance(10000);
  EXPECT_EQ(queue().reap().expired, 0);
  advance(1);
  EXPECT_EQ(queue().reap().expired, 2);
  EXPECT_FALSE(queue().find("s-0"));
  for (const auto& [key, fields] : backend_->dump())
    EXPECT_TRUE(key == "alive_ms" || key == "sequence" || key == "clock" || key == "totals") << key;
}

TEST_P(QueueContract, AReapSaysThatThereIsMoreAfterEachWholeBatch) {
  if (GetParam() == "memory") GTEST_SKIP() << "the reference does all at once";
  make({.keep_finished = Milliseconds(10000), .most_losses = 2});
  constexpr int kJobs = 130;
  std::vector<Lease> leases;
  const auto claim_all = [&] {
    leases.clear();
    while (const auto lease = claim()) leases.push_back(*lease);
    ASSERT_EQ(leases.size(), static_cast<size_t>(kJobs));
  };
  const auto expect_batches = [&](int64_t ReapCounts::*count) {
    for (const auto& [expected, more] : {std::pair{64, true}, {64, true}, {2, false}}) {
      const auto counts = queue().reap();
      EXPECT_EQ(counts.*count, expected);
      EXPECT_EQ(counts.more, more);
    }
  };
  for (int i = 0; i < kJobs; ++i) queue().submit(job_named(fmt::format("j{}", i)));
  claim_all();
  for (int i = 0; i < 2; ++i) {  // a long silence of all would be Redis' own
    advance(10000);
    queue().reap();
  }
  advance(10001);
  expect_batches(&ReapCounts::lost_leases);
  claim_all();
  for (const auto& lease : leases) EXPECT_TRUE(finish(lease, Outcome::error));
  advance(1'000'000);
  expect_batches(&ReapCounts::promoted);
  claim_all();
  for (const auto& lease : leases) EXPECT_TRUE(finish(lease, Outcome::failed));
  advance(10001);
  expect_batches(&ReapCounts::expired);
}

TEST_P(QueueContract, OfTooManyFinishedJobsThoseThatEndedFirstAreForgotten) {
  make({.keep_finished = Milliseconds(0), .keep_jobs = 3});
  for (int i = 0; i < 100; ++i) {
    advance(1);
    EXPECT_TRUE(finish(leased(fmt::format("j{}", i)), i % 3 == 0 ? Outcome::failed : Outcome::succeeded));
  }
  queue().submit(job_named("waits"));
  int64_t forgotten = 0;
  for (bool more = true; more;) {
    const auto counts = queue().reap();
    forgotten += counts.expired;
    more = counts.more;
  }
  EXPECT_EQ(forgotten, 97);
  EXPECT_FALSE(queue().find("j96"));
  for (const auto* id : {"j97", "j98", "j99", "waits"}) EXPECT_TRUE(queue().find(id)) << id;
  EXPECT_EQ(queue().reap().expired, 0);
}

TEST_P(QueueContract, TheLogOfAJobIsWholeForAMinuteAfterItsEndThenItsEndIsKept) {
  JobReport report;
  for (int i = 0; i < 150; ++i) report.log_lines.push_back(fmt::format("line {:3} {}", i, std::string(70, 'x')));
  const std::vector<std::tuple<std::string, Outcome, size_t>> cases = {{"good", Outcome::succeeded, 2},
                                                                       {"bad", Outcome::failed, 50}};
  const auto log_of = [&](const std::string& id) { return backend_->dump().at("job:" + id + ":log"); };
  for (const auto& [id, outcome, kept] : cases) {
    const auto lease = leased(id);
    queue().report(lease, report);
    EXPECT_TRUE(finish(lease, outcome));
  }
  // The last one goes on before the minute is over.
  auto lease = leased("again");
  queue().report(lease, report);
  EXPECT_TRUE(finish(lease, Outcome::failed));
  queue().retry("again");
  advance(59'999);
  lease = claim().value();
  queue().reap();
  for (const auto& [id, outcome, kept] : cases) EXPECT_EQ(log_of(id).size(), 150U) << id;
  advance(1);
  queue().reap();
  for (const auto& [id, outcome, kept] : cases) {
    const auto log = log_of(id);
    EXPECT_EQ(log.size(), kept);
    EXPECT_EQ(log.rbegin()->second, report.log_lines.back());
    EXPECT_EQ(queue().find(id)->log_lines, 150);
  }
  EXPECT_EQ(log_of("again").size(), 150U) << "it runs";
  EXPECT_EQ(backend_->dump().count("logs"), 0U);
}

TEST_P(QueueContract, AThousandLogsAreWholeAfterTheEndAndNoMore) {
  const JobReport report{.log_lines = {"one", "two", "three"}};
  for (int i = 0; i < 1003; ++i) {
    const auto lease = leased(fmt::format("j{:04}", i));
    queue().report(lease, report);
    EXPECT_TRUE(finish(lease, Outcome::succeeded));
    if (i < 4) advance(1);
  }
  const auto dump = backend_->dump();
  EXPECT_EQ(dump.at("logs").size(), 1000U);
  EXPECT_EQ(dump.at("job:j0002:log").size(), 2U);
  EXPECT_EQ(dump.at("job:j0003:log").size(), 3U);
  advance(60'000);
  for (bool more = true; more;) more = queue().reap().more;
  EXPECT_EQ(backend_->dump().at("job:j1002:log").size(), 2U);
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

TEST_P(QueueContract, WhatIsTooLargeIsRefusedWithItsName) {
  const auto error = [&](auto change) {
    auto spec = job_named("j");
    change(spec);
    return testing::message_of<SweepError>([&] { queue().submit(spec); });
  };
  EXPECT_THAT(error([](auto& s) { s.settings.assign(300000, 'x'); }), HasSubstr("settings: 300000 bytes"));
  EXPECT_THAT(error([](auto& s) { s.parameters["k"].assign(20000, 'x'); }), HasSubstr("parameters"));
  EXPECT_THAT(error([](auto& s) { s.name = "a\nb"; }), HasSubstr("control character"));
  EXPECT_THAT(error([](auto& s) { s.id = "../x"; }), HasSubstr("id"));
  EXPECT_THAT(error([](auto& s) { s.priority = 4001; }), HasSubstr("-4000 to 4000"));
  EXPECT_THAT(error([](auto& s) { s.resources.ranks = 0; }), HasSubstr("resources.ranks"));
  EXPECT_THAT(error([](auto& s) { s.max_attempts = 0; }), HasSubstr("max_attempts"));
  EXPECT_THAT(error([](auto& s) { s.after.assign(65, "x"); }), HasSubstr("at most 64"));
  EXPECT_FALSE(queue().find("j"));
  EXPECT_THROW(queue().claim({"", "token"}), JobsError);
}

INSTANTIATE_TEST_SUITE_P(Queues, QueueContract, ::testing::Values("memory", "model", "redis", "cluster"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace foretime::jobs
