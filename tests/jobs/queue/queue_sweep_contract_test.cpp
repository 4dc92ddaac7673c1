#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/jobs/queue/queue_contract.h"
#include "tests/support/golden.h"

/// The part of the contract where jobs depend on each other or belong to a sweep.
namespace foretime::jobs {
namespace {

using ::testing::HasSubstr;
/// A name of its own, so that both files instantiate.
class QueueSweepContract : public QueueContract {};

JobSpec needing(const std::string& id, std::vector<std::string> after) {
  auto spec = job_named(id);
  spec.after = std::move(after);
  return spec;
}

TEST_P(QueueSweepContract, JobsWaitForWhatTheyNeed) {
  const auto train = leased("train");
  queue().submit(needing("evaluate", {"train"}));
  queue().submit(needing("export", {"train", "evaluate"}));
  EXPECT_EQ(state("evaluate"), JobState::blocked);
  EXPECT_FALSE(claim());
  EXPECT_TRUE(finish(train, Outcome::stopped));
  const auto evaluate = claim().value();
  EXPECT_EQ(evaluate.job, "evaluate");
  EXPECT_EQ(state("export"), JobState::blocked);
  EXPECT_TRUE(finish(evaluate, Outcome::succeeded));
  EXPECT_EQ(claim()->job, "export");
  queue().submit(needing("late", {"train"}));
  EXPECT_EQ(state("late"), JobState::waiting);
}

TEST_P(QueueSweepContract, ASweepMayGrow) {
  SweepSpec sweep{.id = "s", .name = "sweep", .method = "random", .trials = 2};
  EXPECT_TRUE(queue().create_sweep(sweep));
  sweep.trials = 5;
  EXPECT_FALSE(queue().create_sweep(sweep));
  EXPECT_EQ(backend_->dump().at("sweep:s").at("trials"), "5");
  sweep.trials = 3;
  sweep.name = "other";
  EXPECT_FALSE(queue().create_sweep(sweep));
  EXPECT_EQ(backend_->dump().at("sweep:s").at("trials"), "5");
  EXPECT_EQ(backend_->dump().at("sweep:s").at("name"), "sweep");
}

TEST_P(QueueSweepContract, WhatCanNeverRunIsRefused) {
  EXPECT_TRUE(finish(leased("bad"), Outcome::failed));
  EXPECT_MESSAGE(refusal([&] { queue().submit(needing("a", {"bad"})); }));
  EXPECT_MESSAGE(refusal([&] { queue().submit(needing("a", {"nothing"})); }));
  EXPECT_FALSE(queue().find("a"));
  auto spec = job_named("a");
  spec.sweep = "nosweep";
  EXPECT_MESSAGE(refusal([&] { queue().submit(spec); }));
}

TEST_P(QueueSweepContract, AnEndWithoutSuccessCancelsWhatNeedsItAndARetryBringsItBack) {
  const auto lease = leased("a");
  queue().submit(job_named("x"));
  queue().submit(needing("b", {"a"}));
  queue().submit(needing("c", {"b"}));
  queue().submit(needing("d", {"a", "x"}));
  EXPECT_TRUE(finish(lease, Outcome::failed));
  for (const auto* id : {"b", "c", "d"}) EXPECT_EQ(state(id), JobState::cancelled);
  EXPECT_MESSAGE(queue().find("c")->reason);
  EXPECT_EQ(queue().cancel("x"), CancelOutcome::cancelled);
  EXPECT_MESSAGE(refusal([&] { queue().retry("b"); }));
  queue().retry("a");
  EXPECT_EQ(state("b"), JobState::blocked);
  EXPECT_EQ(state("c"), JobState::blocked);
  EXPECT_EQ(state("d"), JobState::cancelled);  // x was cancelled too
  queue().retry("x");
  EXPECT_EQ(state("d"), JobState::blocked);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(finish(claim().value(), Outcome::succeeded));
  for (const auto* id : {"a", "b", "c", "d", "x"}) EXPECT_EQ(state(id), JobState::succeeded);
}

TEST_P(QueueSweepContract, ManyDependantsAreSettledInBatches) {
  constexpr int kMost = 1000;
  const auto lease = leased("a");
  for (int i = 0; i < kMost; ++i) queue().submit(needing(fmt::format("c{}", i), {"a"}));
  EXPECT_MESSAGE(refusal([&] { queue().submit(needing("more", {"a"})); }));
  EXPECT_TRUE(finish(lease, Outcome::failed));
  while (queue().reap().more) {
  }
  EXPECT_EQ(backend_->dump().at("state:cancelled").size(), 1000U);
  queue().retry("a");
  while (queue().reap().more) {
  }
  EXPECT_EQ(backend_->dump().at("state:blocked").size(), 1000U);
  EXPECT_TRUE(finish(claim().value(), Outcome::succeeded));
  while (queue().reap().more) {
  }
  EXPECT_EQ(backend_->dump().at("state:waiting").size(), 1000U);
}

TEST_P(QueueSweepContract, JobsOfAPausedSweepAreSetAsideAndComeBackInOrder) {
  create("s");
  for (int i = 0; i < 150; ++i) queue().submit(trial("s", i));
  queue().submit(job_named("other"));
  queue().pause("s");
  EXPECT_EQ(claim()->job, "other");
  EXPECT_EQ(state("s-0"), JobState::held);
  EXPECT_EQ(backend_->dump().at("state:held").size(), 64U);  // one claim does a bounded part
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(claim());
  EXPECT_EQ(backend_->dump().at("state:held").size(), 150U);
  queue().set_priority("s-7", 1);
  EXPECT_FALSE(claim());
  queue().resume("s");
  EXPECT_EQ(backend_->dump().count("state:held"), 0U);
  EXPECT_EQ(claim()->job, "s-7");
  EXPECT_EQ(claim()->job, "s-0");
  EXPECT_EQ(claim()->job, "s-1");
  EXPECT_THAT(refusal([&] { queue().pause("nosweep"); }), HasSubstr("unknown"));
}

TEST_P(QueueSweepContract, CancellingASweepEndsEveryJobOfIt) {
  create("s");
  for (int i = 0; i < 150; ++i) queue().submit(trial("s", i));
  const auto lease = claim().value();
  EXPECT_EQ(queue().cancel_sweep("s"), 150);
  EXPECT_EQ(queue().cancel_sweep("s"), 0);
  EXPECT_EQ(backend_->dump().at("state:cancelled").size(), 149U);
  EXPECT_EQ(queue().renew(lease, Milliseconds(1000)), Directive::cancel);
  EXPECT_THAT(refusal([&] { queue().submit(trial("s", 200)); }), HasSubstr("was cancelled"));
  EXPECT_THAT(refusal([&] { queue().retry("s-1"); }), HasSubstr("was cancelled"));
  EXPECT_THAT(refusal([&] { create("s"); }), HasSubstr("was cancelled"));
  EXPECT_THAT(refusal([&] { queue().cancel_sweep("nosweep"); }), HasSubstr("unknown"));
  EXPECT_TRUE(finish(lease, Outcome::cancelled));
}

TEST_P(QueueSweepContract, ATrialThatFailsAfterItWasToldToStopKeepsThatReason) {
  for (const auto outcome : {Outcome::error, Outcome::preempted}) {
    const std::string sweep = outcome == Outcome::error ? "fails" : "moves";
    create(sweep, {{1, 3}, 3}, true);
    std::vector<Lease> leases;
    for (int i = 0; i < 2; ++i) queue().submit(trial(sweep, i)), leases.push_back(claim().value());
    EXPECT_EQ(queue().report(leases[0], {.iteration = 1, .objective = 0.5}), Directive::proceed);
    EXPECT_EQ(queue().report(leases[1], {.iteration = 1, .objective = 0.4}), Directive::stop);
    for (const auto& lease : leases) EXPECT_TRUE(finish(lease, outcome));
    EXPECT_MESSAGE(queue().find(sweep + "-0")->reason);
    EXPECT_MESSAGE(queue().find(sweep + "-1")->reason);
  }
}

TEST_P(QueueSweepContract, HalvingStopsTrialsThatAreNotAmongTheBest) {
  for (const bool maximize : {true, false}) {
    const std::string sweep = maximize ? "up" : "down";
    create(sweep, {{1, 3}, 3}, maximize);
    std::vector<Lease> leases;
    for (int i = 0; i < 6; ++i) queue().submit(trial(sweep, i)), leases.push_back(claim().value());
    const auto tell = [&](int i, int64_t iteration, double objective) {
      JobReport report{.iteration = iteration, .objective = maximize ? objective : -objective};
      return queue().report(leases[static_cast<size_t>(i)], report);
    };
    EXPECT_EQ(tell(0, 1, 0.5), Directive::proceed);  // the first of its rung
    EXPECT_EQ(tell(1, 1, 0.4), Directive::stop);     // 2nd of 2, one may go on
    EXPECT_MESSAGE(queue().find(sweep + "-1")->reason);
    EXPECT_EQ(tell(1, 2, 9.0), Directive::stop);  // for ever
    EXPECT_EQ(queue().renew(leases[1], Milliseconds(1000)), Directive::stop);
    EXPECT_EQ(tell(2, 1, 0.5), Directive::proceed);  // a tie counts in its favour
    EXPECT_EQ(tell(2, 1, 0.1), Directive::proceed);  // the first value stands
    EXPECT_EQ(tell(3, 2, 0.6), Directive::proceed);  // past the rung, without a value there: recorded now
    EXPECT_EQ(tell(4, 1, std::numeric_limits<double>::quiet_NaN()), Directive::stop);
    EXPECT_EQ(tell(0, 3, 0.7), Directive::proceed);
    EXPECT_EQ(tell(5, 5, 0.65), Directive::stop);  // best of rung 1, 2nd of 2 at rung 3
    EXPECT_MESSAGE(queue().find(sweep + "-5")->reason);
    queue().cancel(sweep + "-5");
    EXPECT_EQ(tell(5, 6, 0.65), Directive::cancel);
    for (const auto& lease : leases) EXPECT_TRUE(finish(lease, Outcome::stopped));
  }
}

TEST_P(QueueSweepContract, TrialsTakeTheSettingsThatStandOnceInTheirSweep) {
  queue().create_sweep({.id = "s", .method = "grid", .settings = "trainer: {steps: 7}\n"});
  auto spec = trial("s", 0);
  spec.settings = kSweepSettings;
  queue().submit(spec);
  EXPECT_EQ(claim()->spec.settings, "trainer: {steps: 7}\n");
  spec.sweep.clear();
  spec.id = "alone";
  EXPECT_THROW(queue().submit(spec), SweepError);
}

TEST_P(QueueSweepContract, EachOfJobsThatAreSubmittedTogetherIsToldOf) {
  create("s");
  for (size_t together = 1; together <= 3; ++together) {
    std::vector<JobSpec> specs;
    for (size_t i = 0; i < together; ++i) specs.push_back(job_named(fmt::format("j{}-{}", together, i)));
    const size_t before = backend_->events().size();
    queue().submit_all(specs);
    const auto events = backend_->events();
    ASSERT_EQ(events.size() - before, together);
    for (size_t i = 0; i < together; ++i) EXPECT_EQ(events[before + i].job, specs[i].id);
  }
}

TEST_P(QueueSweepContract, ManyJobsAreSubmittedAtOnceAndASecondTimeAddNothing) {
  create("s");
  std::vector<JobSpec> specs;
  for (int i = 0; i < 700; ++i) {
    specs.push_back(trial("s", i));
    if (i % 7 == 6) specs.back().after = {specs[specs.size() - 2].id};
    if (i == 300) specs.back().settings.append(Limits::kSettings - 100, '#');  // a call of its own
  }
  const std::span<const JobSpec> all(specs);
  EXPECT_EQ(queue().submit_all(all.first(70)), std::vector<bool>(70, true));
  // Its answer was lost: again, with all the others.
  std::vector<bool> expected(700, true);
  std::fill_n(expected.begin(), 70, false);
  EXPECT_EQ(queue().submit_all(all), expected);
  EXPECT_EQ(queue().submit_all(all), std::vector<bool>(700, false));
  EXPECT_EQ(backend_->dump().at("state:waiting").size(), 600U);
  EXPECT_EQ(backend_->dump().at("state:blocked").size(), 100U);
  EXPECT_EQ(backend_->dump().at("totals").at("submitted"), "700");
  for (int i = 0; i < 10; ++i) EXPECT_EQ(claim()->job, all[static_cast<size_t>(i + i / 6)].id) << "in their order";
  EXPECT_TRUE(queue().submit_all({}).empty());
}

TEST_P(QueueSweepContract, WhereOneOfManyIsRefusedThoseBeforeItStay) {
  const std::vector<JobSpec> specs = {job_named("a"), needing("b", {"nothing"}), job_named("c")};
  EXPECT_MESSAGE(refusal([&] { queue().submit_all(specs); }));
  EXPECT_EQ(state("a"), JobState::waiting);
  EXPECT_FALSE(queue().find("b"));
}

// Promise agents/sweep-bayesian
TEST_P(QueueSweepContract, DeferredParametersAreFixedOnceAndByManyAgentsSideBySide) {
  create("s");
  std::vector<Lease> leases;
  for (int i = 0; i < 2; ++i) {
    auto spec = trial("s", i);
    spec.deferred = true;
    spec.parameters.clear();
    queue().submit(spec);
    leases.push_back(claim().value());
    EXPECT_TRUE(leases.back().spec.deferred);
  }
  const Parameters one = {{"a", "1"}}, two = {{"a", "2"}};
  EXPECT_TRUE(queue().propose(leases[0], one));
  EXPECT_TRUE(queue().propose(leases[0], one));   // its answer was lost
  EXPECT_FALSE(queue().propose(leases[0], two));  // what is fixed stands
  EXPECT_TRUE(queue().propose(leases[1], two));
  EXPECT_TRUE(finish(leases[0], Outcome::preempted));
  const auto again = claim().value();
  EXPECT_EQ(again.spec.parameters, one);
  EXPECT_FALSE(again.spec.deferred);
}

TEST_P(QueueSweepContract, AgentsAreListedUntilTheyLeaveOrFallSilent) {
  queue().heartbeat_agent({"one", "host", "0.1", 7, 8, 2, 1, false});
  queue().heartbeat_agent({"two", "host", "0.1", 8, 8, 2, 0, false});
  EXPECT_EQ(backend_->dump().at("agent:one").at("pid"), "7");
  queue().heartbeat_agent({"two", "host", "0.1", 8, 8, 2, 0, true});
  EXPECT_EQ(backend_->dump().count("agent:two"), 0U);
  advance(24LL * 3600 * 1000 + 1);
  queue().heartbeat_agent({"three", "", "", 0, 0, 0, 0, false});
  EXPECT_EQ(backend_->dump().at("agents").size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Queues, QueueSweepContract, ::testing::Values("memory", "model", "redis", "cluster"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace foretime::jobs
