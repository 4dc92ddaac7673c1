#include "tests/jobs/queue/queue_contract.h"

#include <limits>
#include <map>
#include <numeric>
#include <tuple>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/support/golden.h"
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

TEST_P(QueueContract, AJobWithAProgramWaitsForAnAgentThatRunsIt) {
  for (const auto* id : {"a", "b", "foretime"}) {
    auto spec = job_named(id);
    if (spec.id != "foretime") spec.program = std::string("0") + id;
    queue().submit(spec);
  }
  using Demands = std::map<Demand, int64_t>;
  EXPECT_EQ(queue().waiting(), (Demands{{{1, 0, ""}, 1}, {{1, 0, "0a"}, 1}, {{1, 0, "0b"}, 1}}));
  ClaimRequest request{"agent", "1", 8, 0, Milliseconds(30000)};
  EXPECT_EQ(queue().claim(request)->job, "foretime");
  request.token = "2";
  EXPECT_FALSE(queue().claim(request));
  request.runs_programs = true;
  request.lacking_programs = {"0a", "0c"};
  const auto lease = queue().claim(request).value();
  EXPECT_EQ(lease.job, "b");
  EXPECT_EQ(lease.spec.program, "0b");
  // It waits for the same agents again, however it came back.
  EXPECT_TRUE(queue().finish(lease, {.outcome = Outcome::error, .error = "broke"}, 0));
  advance(60'000);
  queue().reap();
  request.token = "3";
  request.lacking_programs = {"0b"};
  EXPECT_EQ(queue().claim(request)->job, "a");
  request.token = "4";
  EXPECT_FALSE(queue().claim(request));
  EXPECT_EQ(queue().waiting(), (Demands{{{1, 0, "0b"}, 1}}));
  request.lacking_programs = {};
  EXPECT_EQ(queue().claim(request)->job, "b");
}

JobSpec elastic_job(const std::string& id, int64_t least, int64_t most, int64_t cpus = 1, int64_t gpus = 0) {
  auto spec = job_named(id);
  spec.resources = {.ranks = least, .cpus = cpus, .gpus = gpus, .most_ranks = most};
  return spec;
}

// Promise lost-hosts/taken-ranks: a claim takes the ranks that are free, on whole hosts
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
// Promise lost-hosts/taken-ranks
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

TEST_P(QueueContract, AResultSaysThatThePublishedCheckpointIsGone) {
  const auto lease = leased("j");
  JobReport report;
  report.checkpoint = "j/attempt-1/checkpoints/step-2";
  queue().report(lease, report);
  EXPECT_TRUE(queue().finish(lease, {.outcome = Outcome::stopped, .checkpoint = kNoCheckpoint}, 0));
  EXPECT_EQ(queue().find("j")->checkpoint, "");
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
  EXPECT_TRUE(std::isnan(record.loss.value()));
  EXPECT_EQ(record.objective, 0.125);
  EXPECT_EQ(record.best_objective, 0.25);
  EXPECT_EQ(record.checkpoint, "runs/c1");
  EXPECT_EQ(record.log_lines, 232);
  EXPECT_EQ(backend_->dump().at("job:j:log").size(), 200U);
}

/// A loss that is not known is missing, and no 0.
TEST_P(QueueContract, ALossIsMissingUntilOneIsReportedAndAfterASuccess) {
  const auto lease = leased("j");
  EXPECT_EQ(queue().find("j")->loss, std::nullopt);
  queue().report(lease, {.step = 1, .total_steps = 9});
  EXPECT_EQ(queue().find("j")->loss, std::nullopt);
  queue().report(lease, {.step = 2, .total_steps = 9, .loss = 0.5});
  queue().report(lease, {.step = 3, .total_steps = 9});
  EXPECT_EQ(queue().find("j")->loss, 0.5);
  const auto failing = leased("k");
  queue().report(failing, {.step = 2, .total_steps = 9, .loss = 0.25});
  EXPECT_TRUE(queue().finish(lease, {.outcome = Outcome::succeeded}, 0));
  EXPECT_TRUE(queue().finish(failing, {.outcome = Outcome::failed}, 0));
  EXPECT_EQ(queue().find("j")->loss, std::nullopt);
  EXPECT_EQ(queue().find("k")->loss, 0.25);
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
  EXPECT_MESSAGE(refusal([&] { queue().cancel("nothing"); }));
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
  EXPECT_MESSAGE(refusal([&] { queue().set_priority("j", 1); }));
  EXPECT_THAT(refusal([&] { queue().retry("nothing"); }), HasSubstr("unknown"));
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
