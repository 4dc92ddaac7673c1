#include "jobs/sweep/proposer.h"

#include <cmath>
#include <functional>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "jobs/error.h"
#include "jobs/sweep/sweep.h"
#include "tests/jobs/queue/memory_queue.h"

namespace foretime::jobs {
namespace {

using ::testing::HasSubstr;

const char* const kSweep =
    "method: bayes\nname: b\nrun_cap: 40\nmetric: {name: holdout/mae}\noverrides: {data.train: [a.npz]}\n"
    "parameters:\n  optimizer.learning_rate: {distribution: log_uniform_values, min: 1.0e-6, max: 1.0}\n"
    "  model.layers: {min: 1, max: 4}\n";

class Proposing : public ::testing::Test, public TrialSource {
 protected:
  Proposing() : sweep_(parse_sweep(kSweep, "b.yaml", ".")) {
    queue_.create_sweep(sweep_.spec);
    for (const JobSpec& job : sweep_.jobs) queue_.submit(job);
  }

  std::optional<SweepRecord> sweep(const std::string& id) override {
    ++reads_;
    if (id != sweep_.spec.id || forgotten_) return std::nullopt;
    SweepRecord record;
    record.spec = sweep_.spec;
    record.proposals = queue_.proposals(id);
    return record;
  }
  std::vector<JobRecord> jobs_of(const std::string&) override {
    std::vector<JobRecord> records;
    for (auto job = sweep_.jobs.rbegin(); job != sweep_.jobs.rend(); ++job) records.push_back(*queue_.find(job->id));
    if (meanwhile_) meanwhile_();
    return records;
  }

  Lease claim() {
    ClaimRequest request;
    request.agent = "agent";
    request.token = "token" + std::to_string(++tokens_);
    const auto lease = queue_.claim(request);
    if (!lease) throw JobsError("nothing to claim");
    return *lease;
  }
  double finish(const Lease& lease, const Parameters& parameters) {
    const double value = std::abs(std::log10(std::stod(parameters.at("optimizer.learning_rate"))) + 3) +
                         0.3 * std::abs(std::stod(parameters.at("model.layers")) - 3);
    JobResult result;
    result.objective = value;
    EXPECT_TRUE(queue_.finish(lease, result, 0));
    return value;
  }

  Sweep sweep_;
  MemoryQueue queue_;
  std::function<void()> meanwhile_;
  int reads_ = 0, tokens_ = 0;
  bool forgotten_ = false;
};

TEST_F(Proposing, DecidesTrialsOneAfterTheOtherAndLearns) {
  double early = 0, late = 0;
  for (int i = 0; i < 40; ++i) {
    const Lease lease = claim();
    ASSERT_TRUE(lease.spec.deferred);
    const Parameters parameters = decide_parameters(*this, queue_, lease);
    const auto record = queue_.find(lease.job);
    EXPECT_EQ(record->spec.parameters, parameters);
    EXPECT_FALSE(record->spec.deferred);
    EXPECT_NO_THROW(trial_settings(lease.spec, parameters));
    const double value = finish(lease, parameters);
    if (i < 10) early += value / 10;
    if (i >= 30) late += value / 10;
  }
  EXPECT_EQ(queue_.proposals(sweep_.spec.id), 40);
  EXPECT_LT(late, 0.6 * early);
}

TEST_F(Proposing, TheSameHistoryGivesTheSameDecision) {
  for (int i = 0; i < 12; ++i) {
    const Lease lease = claim();
    finish(lease, decide_parameters(*this, queue_, lease));
  }
  const Lease lease = claim();
  const Parameters decided = decide_parameters(*this, queue_, lease);
  EXPECT_EQ(decided, propose_trial(sweep_.space, observations_of(jobs_of(""), lease.job), false, sweep_.spec.seed,
                                   lease.spec.trial));
}

TEST_F(Proposing, LooksAgainWhenAnotherAgentWasFaster) {
  const Lease mine = claim(), other = claim();
  meanwhile_ = [&] {
    meanwhile_ = nullptr;
    decide_parameters(*this, queue_, other);
  };
  decide_parameters(*this, queue_, mine);
  EXPECT_EQ(reads_, 3) << "mine, the other's, mine again";
  EXPECT_EQ(queue_.proposals(sweep_.spec.id), 2);
}

TEST_F(Proposing, GivesUpWhenOthersAreAlwaysFaster) {
  /// A source whose count is always behind.
  class Stale final : public TrialSource {
   public:
    explicit Stale(TrialSource& source) : source_(source) {}
    std::optional<SweepRecord> sweep(const std::string& id) override {
      auto record = source_.sweep(id);
      --record->proposals;
      return record;
    }
    std::vector<JobRecord> jobs_of(const std::string& id) override { return source_.jobs_of(id); }

   private:
    TrialSource& source_;
  } stale(*this);
  const Lease lease = claim();
  EXPECT_THROW(decide_parameters(stale, queue_, lease), JobsError);
  EXPECT_EQ(reads_, kProposalTries);
}

TEST_F(Proposing, ALostLeaseDecidesNothing) {
  queue_.set_now_ms(queue_.now_ms());
  const Lease lost = claim();
  queue_.cancel(lost.job);
  JobResult cancelled;
  cancelled.outcome = Outcome::cancelled;
  queue_.finish(lost, cancelled, 0);
  try {
    decide_parameters(*this, queue_, lost);
    FAIL() << "the lease was lost";
  } catch (const JobRefused& error) {
    EXPECT_THAT(error.what(), HasSubstr("the lease was lost"));
  }
  EXPECT_EQ(queue_.proposals(sweep_.spec.id), 0);
}

TEST_F(Proposing, WhatIsFixedStays) {
  const Lease lease = claim();
  const Parameters first = decide_parameters(*this, queue_, lease);
  // The answer was lost: the agent asks again with the lease that it has.
  EXPECT_EQ(decide_parameters(*this, queue_, lease), first);
  // And so does the next attempt, whose lease carries the parameters.
  JobResult error;
  error.outcome = Outcome::preempted;
  ASSERT_TRUE(queue_.finish(lease, error, 0));
  const Lease again = claim();
  ASSERT_EQ(again.job, lease.job);
  reads_ = 0;
  EXPECT_EQ(decide_parameters(*this, queue_, again), first);
  EXPECT_EQ(reads_, 0);
  EXPECT_EQ(queue_.proposals(sweep_.spec.id), 1);
}

TEST_F(Proposing, UnknownOrDamagedSweepIsAnError) {
  const Lease lease = claim();
  forgotten_ = true;
  EXPECT_THROW(decide_parameters(*this, queue_, lease), JobRefused);
  forgotten_ = false;
  sweep_.spec.definition = "[{}]";
  EXPECT_THROW(decide_parameters(*this, queue_, lease), SweepError);
}

TEST(Observations, CountWhatIsComparable) {
  const auto record = [](int64_t trial, JobState state, std::optional<double> objective, std::optional<double> best) {
    JobRecord job;
    job.spec.id = "job" + std::to_string(trial);
    job.spec.trial = trial;
    job.spec.parameters = {{"x", std::to_string(trial)}};
    job.state = state;
    job.objective = objective;
    job.best_objective = best;
    return job;
  };
  std::vector<JobRecord> jobs = {record(3, JobState::active, 0.5, 0.4),   record(0, JobState::succeeded, 0.5, 0.3),
                                 record(1, JobState::dead, {}, {}),       record(2, JobState::cancelled, {}, {}),
                                 record(4, JobState::cancelled, 0.7, {}), record(5, JobState::succeeded, 0.9, {}),
                                 record(6, JobState::waiting, {}, {}),    record(7, JobState::succeeded, 0.1, 0.1),
                                 record(8, JobState::succeeded, 0.2, 0.2)};
  jobs[6].spec.parameters.clear();
  jobs[6].spec.deferred = true;
  jobs[8].spec.kind = JobKind::evaluate;
  const std::vector<Observation> seen = observations_of(jobs, "job7");
  ASSERT_EQ(seen.size(), 5U);
  const std::vector<std::pair<std::string, std::optional<double>>> expected = {
      {"0", 0.3}, {"1", std::nullopt}, {"3", std::nullopt}, {"4", 0.7}, {"5", 0.9}};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(seen[i].parameters.at("x"), expected[i].first);
    EXPECT_EQ(seen[i].value, expected[i].second);
  }
}

}  // namespace
}  // namespace foretime::jobs
