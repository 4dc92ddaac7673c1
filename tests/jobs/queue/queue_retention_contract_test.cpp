#include <string>

#include <fmt/format.h>

#include "tests/jobs/queue/queue_contract.h"
#include "tests/support/golden.h"

/// How long ended jobs and their logs are kept.
namespace foretime::jobs {
namespace {

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
    EXPECT_TRUE(key == "settings" || key == "sequence" || key == "totals") << key;
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

/// An export that waits in a long line, say, needs the record of its training.
JobSpec export_of(const std::string& id) {
  auto spec = job_named("export-" + id);
  spec.kind = JobKind::export_;
  spec.settings = spec.metric = "";
  spec.parameters.clear();
  spec.after = {id};
  return spec;
}

// Promise agents/job-needed: a job that others need is kept until they have ended
TEST_P(QueueContract, WhatAJobNeedsStaysUntilThatOneHasEnded) {
  make({.keep_finished = Milliseconds(10000)});
  EXPECT_TRUE(finish(leased("a"), Outcome::succeeded));
  EXPECT_TRUE(queue().submit(export_of("a")));
  advance(10001);
  EXPECT_EQ(queue().reap().expired, 0);
  EXPECT_TRUE(finish(claim().value(), Outcome::succeeded));
  advance(10000);
  EXPECT_EQ(queue().reap().expired, 0) << "as old as what ended then";
  advance(1);
  EXPECT_EQ(queue().reap().expired, 2);
  EXPECT_TRUE(finish(leased("a"), Outcome::succeeded)) << "anew, which nobody needs";
  advance(10001);
  EXPECT_EQ(queue().reap().expired, 1);
}

// Promise agents/job-needed
TEST_P(QueueContract, WhatAJobNeedsStaysWhateverTheNumberOfFinishedJobs) {
  make({.keep_finished = Milliseconds(0), .keep_jobs = 2});
  EXPECT_TRUE(finish(leased("needed"), Outcome::succeeded));
  EXPECT_TRUE(queue().submit(export_of("needed")));
  const auto waits = claim().value();
  for (const auto* id : {"j0", "j1", "j2"}) {
    advance(1);
    EXPECT_TRUE(finish(leased(id), Outcome::succeeded));
    const auto counts = queue().reap();
    EXPECT_FALSE(counts.more);
  }
  EXPECT_TRUE(queue().find("needed"));
  EXPECT_FALSE(queue().find("j0"));
  EXPECT_TRUE(finish(waits, Outcome::succeeded));
}

TEST_P(QueueContract, ARetryNeedsTheJobThatItActsOn) {
  make({.keep_finished = Milliseconds(10000)});
  EXPECT_TRUE(finish(leased("a"), Outcome::succeeded));
  advance(4000);
  EXPECT_TRUE(queue().submit(export_of("a")));
  EXPECT_TRUE(finish(claim().value(), Outcome::failed));
  queue().retry("export-a");
  advance(6001);
  EXPECT_EQ(queue().reap().expired, 0) << "a waits to be exported";
  EXPECT_TRUE(finish(claim().value(), Outcome::failed));
  advance(9999);
  queue().reap();
  advance(2);
  EXPECT_EQ(queue().reap().expired, 2);

  EXPECT_TRUE(finish(leased("b"), Outcome::succeeded));
  advance(4000);
  EXPECT_TRUE(queue().submit(export_of("b")));
  EXPECT_TRUE(finish(claim().value(), Outcome::failed));
  advance(6001);
  EXPECT_EQ(queue().reap().expired, 1);
  EXPECT_MESSAGE(refusal([&] { queue().retry("export-b"); }), "job export-b");
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

}  // namespace
}  // namespace foretime::jobs
