#include "jobs/sweep/proposer.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "jobs/error.h"
#include "jobs/sweep/search_space.h"
#include "jobs/sweep/sweep.h"
#include "tests/jobs/queue/memory_queue.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"

namespace foretime::jobs {
namespace {

const char* const kSweep =
    "method: bayes\nname: b\nrun_cap: 40\nmetric: {name: holdout/mae}\noverrides: {data.train: [a.npz], data.valid: "
    "[v.npz], data.holdout: 0.1, loss.type: huber}\n"
    "parameters:\n  optimizer.learning_rate: {distribution: log_uniform_values, min: 1.0e-6, max: 1.0}\n"
    "  model.layers: {min: 1, max: 4}\n";

/// By trial, as an agent has them that read all of a sweep.
std::vector<Observation> observations_of(const std::vector<JobRecord>& jobs, const std::string& except) {
  std::map<std::pair<int64_t, std::string>, Observation> trials;
  for (const JobRecord& job : jobs) {
    if (auto observation = observation_of(job); observation && job.spec.id != except)
      trials[{job.spec.trial, job.spec.id}] = std::move(*observation);
  }
  std::vector<Observation> seen;
  for (auto& [trial, observation] : trials) seen.push_back(std::move(observation));
  return seen;
}

Parameters propose_trial(const SearchSpace& space, const std::vector<Observation>& seen, bool maximize, uint64_t seed,
                         int64_t trial) {
  std::vector<const Observation*> pointers;
  for (const Observation& observation : seen) pointers.push_back(&observation);
  return jobs::propose_trial(space, pointers, maximize, seed, trial);
}

SweepRecord record_of(const SweepSpec& spec) {
  SweepRecord record;
  record.spec = spec;
  record.created_ms = 1;
  return record;
}

class Proposing : public ::testing::Test, public TrialSource {
 protected:
  Proposing() : sweep_(parse_sweep(kSweep, "b.yaml", ".")) {
    queue_.create_sweep(sweep_.spec);
    for (const JobSpec& job : sweep_.jobs) queue_.submit(job);
  }

  std::optional<SweepRecord> sweep(const std::string& id) override {
    if (id != sweep_.spec.id || forgotten_) return std::nullopt;
    return record_of(sweep_.spec);
  }
  TrialChanges changes(const std::string& id, int64_t from) override {
    const auto all = queue_.changes(id);
    return {1, {all.begin() + std::min(from, static_cast<int64_t>(all.size())), all.end()}};
  }
  std::vector<JobRecord> jobs(const std::vector<std::string>& ids) override {
    std::vector<JobRecord> records;
    for (const auto& id : ids) records.push_back(*queue_.find(id));
    std::reverse(records.begin(), records.end());
    reads_ += static_cast<int>(ids.size());
    if (meanwhile_) std::exchange(meanwhile_, nullptr)();
    return records;
  }
  std::vector<JobRecord> all_jobs() {
    std::vector<JobRecord> records;
    for (auto job = sweep_.jobs.rbegin(); job != sweep_.jobs.rend(); ++job) records.push_back(*queue_.find(job->id));
    return records;
  }

  Lease claim() {
    const auto lease = queue_.claim({.agent = "agent", .token = "token" + std::to_string(++tokens_)});
    if (!lease) throw JobsError("nothing to claim");
    return *lease;
  }
  double finish(const Lease& lease, const Parameters& parameters) {
    const double value = std::abs(std::log10(std::stod(parameters.at("optimizer.learning_rate"))) + 3) +
                         0.3 * std::abs(std::stod(parameters.at("model.layers")) - 3);
    EXPECT_TRUE(queue_.finish(lease, {.objective = value}, 0));
    return value;
  }

  Sweep sweep_;
  MemoryQueue queue_;
  std::function<void()> meanwhile_;
  int reads_ = 0, tokens_ = 0;
  bool forgotten_ = false;
  ParameterProposer proposer_{*this};
};

TEST_F(Proposing, DecidesTrialsOneAfterTheOtherAndLearns) {
  double early = 0, late = 0;
  for (int i = 0; i < 40; ++i) {
    const Lease lease = claim();
    ASSERT_TRUE(lease.spec.deferred);
    const Parameters parameters = proposer_.decide(queue_, lease);
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
    finish(lease, proposer_.decide(queue_, lease));
  }
  const Lease lease = claim();
  const Parameters decided = proposer_.decide(queue_, lease);
  EXPECT_EQ(decided, propose_trial(sweep_.space, observations_of(all_jobs(), lease.job), false, sweep_.spec.seed,
                                   lease.spec.trial));
}

TEST_F(Proposing, AgentsDecideSideBySide) {
  const Lease mine = claim(), other = claim();
  ParameterProposer others(*this);
  Parameters theirs;
  meanwhile_ = [&] { theirs = others.decide(queue_, other); };
  const auto parameters = proposer_.decide(queue_, mine);
  EXPECT_NE(parameters, theirs);
  EXPECT_EQ(queue_.proposals(sweep_.spec.id), 2) << "nobody had to look again";
}

TEST_F(Proposing, ADecisionReadsOnlyWhatChangedSinceTheLastOne) {
  for (int i = 0; i < 30; ++i) {
    const Lease lease = claim();
    reads_ = 0;
    finish(lease, proposer_.decide(queue_, lease));
    EXPECT_LE(reads_, 1) << "the one that was decided and finished since";
  }
  // Another agent reads all that was decided once, and then changes only; it decides as one that always did.
  const Lease lease = claim();
  ParameterProposer fresh(*this);
  reads_ = 0;
  fresh.decide(queue_, lease);
  EXPECT_LE(reads_, 31) << "each that was decided, once";
}

/// Any number of sweeps with one trial each, all of the same space; counts how often a sweep was read from the start.
class ManySweeps : public TrialSource {
 public:
  ManySweeps() : sweep_(parse_sweep(kSweep, "b.yaml", ".")) {}
  std::optional<SweepRecord> sweep(const std::string&) override { return record_of(sweep_.spec); }
  TrialChanges changes(const std::string& id, int64_t from) override {
    if (from == 0) ++first_reads[id];
    const std::vector<std::string> all = {id + "-a", id + "-b", id + "-c"};
    return {1, {all.begin() + std::min<int64_t>(from, 3), all.end()}};
  }
  std::vector<JobRecord> jobs(const std::vector<std::string>& ids) override {
    std::vector<JobRecord> records;
    for (const auto& id : ids) records.push_back({.spec = {.id = id}});
    return records;
  }
  /// Decides one more trial of a sweep.
  void decide(const std::string& id) {
    queue_.create_sweep({.id = id});
    auto spec = sweep_.jobs.front();
    spec.id = fmt::format("job{}", ++jobs_);
    spec.sweep = id;
    queue_.submit(spec);
    proposer_.decide(queue_, queue_.claim({.agent = "agent", .token = spec.id}).value());
  }
  std::map<std::string, int> first_reads;

 private:
  Sweep sweep_;
  MemoryQueue queue_;
  int jobs_ = 0;
  ParameterProposer proposer_{*this};
};

// Promise agents/sweep-bayesian: agents of a Bayesian sweep decide side by side; each of many sweeps is read once
TEST(ManySweepsAtOnce, AreRememberedAndTheOneUsedLongestAgoIsForgottenFirst) {
  ManySweeps sweeps;
  const auto name = [](size_t i) { return fmt::format("s{}", i); };
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < 5; ++i) sweeps.decide(name(i));
  }
  const auto before = sweeps.first_reads.at(name(0));
  for (size_t i = 1; i < 5; ++i) EXPECT_EQ(sweeps.first_reads.at(name(i)), before);
  EXPECT_LE(before, 2) << "its changes from the start, and no more in later rounds";
  for (size_t i = 5; i < ParameterProposer::kMostSweeps; ++i) sweeps.decide(name(i));
  sweeps.decide(name(0));
  sweeps.decide("one-more");  // in the place of s1
  sweeps.decide(name(0));
  sweeps.decide(name(2));
  EXPECT_EQ(sweeps.first_reads.at(name(0)), before);
  EXPECT_EQ(sweeps.first_reads.at(name(2)), before);
  sweeps.decide(name(1));
  EXPECT_GT(sweeps.first_reads.at(name(1)), before);
}

TEST_F(Proposing, AHistoryThatWasPutBackIsReadAnew) {
  for (int i = 0; i < 12; ++i) {
    const Lease lease = claim();
    finish(lease, proposer_.decide(queue_, lease));
  }
  // Redis lost its last second, and other trials were decided since.
  queue_.forget_changes(sweep_.spec.id, 3);
  const Lease lease = claim();
  reads_ = 0;
  proposer_.decide(queue_, lease);
  EXPECT_GE(reads_, 10);
}

TEST_F(Proposing, ALostLeaseDecidesNothing) {
  queue_.set_now_ms(queue_.now_ms());
  const Lease lost = claim();
  queue_.cancel(lost.job);
  JobResult cancelled;
  cancelled.outcome = Outcome::cancelled;
  queue_.finish(lost, cancelled, 0);
  EXPECT_MESSAGE(testing::message_of<JobRefused>([&] { proposer_.decide(queue_, lost); }));
  EXPECT_EQ(queue_.proposals(sweep_.spec.id), 0);
}

TEST_F(Proposing, WhatIsFixedStays) {
  const Lease lease = claim();
  const Parameters first = proposer_.decide(queue_, lease);
  // The answer was lost: the agent asks again with the lease that it has.
  EXPECT_EQ(proposer_.decide(queue_, lease), first);
  // And so does the next attempt, whose lease carries the parameters.
  ASSERT_TRUE(queue_.finish(lease, {.outcome = Outcome::preempted}, 0));
  const Lease again = claim();
  ASSERT_EQ(again.job, lease.job);
  reads_ = 0;
  EXPECT_EQ(proposer_.decide(queue_, again), first);
  EXPECT_EQ(reads_, 0);
  EXPECT_EQ(queue_.proposals(sweep_.spec.id), 1);
}

TEST_F(Proposing, UnknownOrDamagedSweepIsAnError) {
  const Lease lease = claim();
  forgotten_ = true;
  EXPECT_THROW(proposer_.decide(queue_, lease), JobRefused);
  forgotten_ = false;
  sweep_.spec.definition = "[{}]";
  EXPECT_THROW(proposer_.decide(queue_, lease), SweepError);
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

ParameterSpace between(const std::string& key, Distribution distribution, double min, double max) {
  return {.key = key, .distribution = distribution, .min = min, .max = max};
}

ParameterSpace categories(const std::string& key, std::vector<std::string> values) {
  return {.key = key, .distribution = Distribution::categorical, .values = std::move(values)};
}

using Objective = std::function<double(const Parameters&)>;
double number(const Parameters& parameters, const char* key) { return std::stod(parameters.at(key)); }

double best_of_tpe(const SearchSpace& space, const Objective& objective, uint64_t seed, int64_t budget) {
  std::vector<Observation> seen;
  double best = INFINITY;
  for (int64_t trial = 0; trial < budget; ++trial) {
    const Parameters parameters = propose_trial(space, seen, false, seed, trial);
    const double value = objective(parameters);
    seen.push_back({parameters, value});
    best = std::min(best, value);
  }
  return best;
}

double best_of_random(const SearchSpace& space, const Objective& objective, uint64_t seed, int64_t budget) {
  double best = INFINITY;
  for (int64_t trial = 0; trial < budget; ++trial) best = std::min(best, objective(random_trial(space, seed, trial)));
  return best;
}

/// Runs both searches with the same budget for `seeds` seeds.
struct Comparison {
  double tpe_median, random_median;
  int wins = 0;
};
Comparison compare(const SearchSpace& space, const Objective& objective, int64_t budget, int seeds) {
  std::vector<double> tpe, random;
  Comparison result{};
  for (int seed = 0; seed < seeds; ++seed) {
    tpe.push_back(best_of_tpe(space, objective, static_cast<uint64_t>(seed), budget));
    random.push_back(best_of_random(space, objective, static_cast<uint64_t>(seed), budget));
    result.wins += tpe.back() < random.back();
  }
  const auto median = [](std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
  };
  result.tpe_median = median(tpe);
  result.random_median = median(random);
  ::testing::Test::RecordProperty("tpe_median", std::to_string(result.tpe_median));
  ::testing::Test::RecordProperty("random_median", std::to_string(result.random_median));
  ::testing::Test::RecordProperty("wins", result.wins);
  return result;
}

const SearchSpace kQuadraticSpace = {between("decay", Distribution::log_uniform_values, 1e-6, 1),
                                     between("rate", Distribution::log_uniform_values, 1e-6, 1)};
double quadratic(const Parameters& p) {
  return std::pow(std::log10(number(p, "rate")) + 3, 2) + std::pow(std::log10(number(p, "decay")) + 4.5, 2);
}

const SearchSpace kMixedSpace = {categories("kind", {"a", "b", "c", "d"}),
                                 between("layers", Distribution::int_uniform, 1, 16),
                                 between("rate", Distribution::log_uniform_values, 1e-5, 1)};
double mixed(const Parameters& p) {
  const double offset = p.at("kind") == "c" ? 0 : 1;
  return offset + 0.1 * std::abs(number(p, "layers") - 11) + std::pow(std::log10(number(p, "rate")) + 2, 2);
}

TEST(Tpe, BeatsRandomSearchOnAQuadraticInLogSpace) {
  const Comparison result = compare(kQuadraticSpace, quadratic, 50, 51);
  EXPECT_LT(result.tpe_median, 0.5 * result.random_median);
  EXPECT_GE(result.wins, 35) << "of 51";
}

TEST(Tpe, BeatsRandomSearchOnAMixOfCategoriesIntegersAndNumbers) {
  const Comparison result = compare(kMixedSpace, mixed, 50, 51);
  EXPECT_LT(result.tpe_median, 0.7 * result.random_median);
  EXPECT_GE(result.wins, 35) << "of 51";
}

TEST(Tpe, MaximizingIsMinimizingTheNegative) {
  std::vector<Observation> seen, negated;
  for (int64_t trial = 0; trial < 20; ++trial) {
    const Parameters parameters = random_trial(kMixedSpace, 5, trial);
    seen.push_back({parameters, mixed(parameters)});
    negated.push_back({parameters, -mixed(parameters)});
  }
  EXPECT_EQ(propose_trial(kMixedSpace, seen, false, 1, 20), propose_trial(kMixedSpace, negated, true, 1, 20));
  EXPECT_NE(propose_trial(kMixedSpace, seen, false, 1, 20), propose_trial(kMixedSpace, seen, true, 1, 20));
}

TEST(Tpe, FirstTrialsAreRandomAndEqualArgumentsGiveEqualResults) {
  std::vector<Observation> seen;
  for (int64_t trial = 0; trial < 30; ++trial) {
    const Parameters parameters = propose_trial(kMixedSpace, seen, false, 9, trial);
    EXPECT_EQ(parameters, propose_trial(kMixedSpace, seen, false, 9, trial));
    if (trial < kRandomTrials) {
      EXPECT_EQ(parameters, random_trial(kMixedSpace, 9, trial));
    }
    seen.push_back({parameters, mixed(parameters)});
  }
}

TEST(Tpe, EveryValueIsInTheSpace) {
  SearchSpace space = kMixedSpace;
  ParameterSpace q = between("step", Distribution::q_uniform, 8, 64);
  q.q = 8;
  space.push_back(q);
  ParameterSpace constant = categories("z", {"7"});
  constant.distribution = Distribution::constant;
  space.push_back(constant);
  std::vector<Observation> seen;
  for (int64_t trial = 0; trial < 60; ++trial) {
    const Parameters p = propose_trial(space, seen, false, 3, trial);
    ASSERT_EQ(p.size(), space.size());
    EXPECT_TRUE(std::set<std::string>({"a", "b", "c", "d"}).contains(p.at("kind")));
    const double layers = number(p, "layers"), rate = number(p, "rate"), step = number(p, "step");
    EXPECT_TRUE(layers >= 1 && layers <= 16 && layers == std::floor(layers)) << layers;
    EXPECT_TRUE(rate >= 1e-5 && rate <= 1) << rate;
    EXPECT_TRUE(step >= 8 && step <= 64 && std::fmod(step, 8) == 0) << step;
    EXPECT_EQ(p.at("z"), "7");
    // The best lies at the ends of the ranges, where kernels are cut.
    seen.push_back({p, layers - step + rate});
  }
}

TEST(Tpe, AGridIsTakenWithoutRepetitionUntilNothingIsLeft) {
  const SearchSpace space = {categories("rate", {"0.1", "0.2", "0.3", "0.4"}),
                             between("layers", Distribution::int_uniform, 1, 3)};
  for (const uint64_t seed : {1, 2, 3, 4, 5}) {
    std::vector<Observation> seen;
    std::set<Parameters> distinct;
    for (int64_t trial = 0; trial < 12; ++trial) {
      const auto parameters = propose_trial(space, seen, false, seed, trial);
      distinct.insert(parameters);
      seen.push_back({parameters, number(parameters, "rate") * number(parameters, "layers")});
    }
    EXPECT_EQ(distinct.size(), 12U) << "seed " << seed;
    EXPECT_TRUE(distinct.contains(propose_trial(space, seen, false, seed, 12))) << "all are done: one is repeated";
  }
}

TEST(Tpe, PendingTrialsPushProposalsApart) {
  std::vector<Observation> seen;
  for (int64_t trial = 0; trial < 20; ++trial) {
    const Parameters parameters = random_trial(kQuadraticSpace, 2, trial);
    seen.push_back({parameters, quadratic(parameters)});
  }
  // One trial number, asked again while earlier answers run: only the liar tells them apart.
  std::set<Parameters> proposals;
  std::vector<Observation> pending = seen;
  for (int i = 0; i < 8; ++i) {
    const Parameters next = propose_trial(kQuadraticSpace, pending, false, 2, 20);
    EXPECT_TRUE(proposals.insert(next).second) << "proposal " << i << " was made before";
    pending.push_back({next, std::nullopt});
  }
  // And with one trial after the other, as agents do.
  pending = seen;
  proposals.clear();
  for (int64_t trial = 20; trial < 36; ++trial) {
    const Parameters next = propose_trial(kQuadraticSpace, pending, false, 2, trial);
    EXPECT_TRUE(proposals.insert(next).second);
    pending.push_back({next, std::nullopt});
  }
}

TEST(Tpe, SmallSpacesAreNotProposedTwiceWhileSomethingIsNew) {
  const SearchSpace space = {categories("a", {"0", "1", "2", "3"}), categories("b", {"0", "1", "2", "3"})};
  std::vector<Observation> seen;
  for (int64_t i = 0; i < 12; ++i) {
    const Parameters p = {{"a", std::to_string(i / 4)}, {"b", std::to_string(i % 4)}};
    seen.push_back({p, number(p, "a") + number(p, "b")});
  }
  int fresh = 0;
  for (int64_t trial = 12; trial < 32; ++trial) fresh += propose_trial(space, seen, false, 1, trial).at("a") == "3";
  EXPECT_GE(fresh, 15) << "of 20; only a = 3 is new, and it looks no better than the rest";
}

TEST(Tpe, FailedTrialsAndValuesThatAreNoNumbersAreAvoided) {
  // Everything in the upper half failed; the rest is all alike.
  const SearchSpace space = {between("x", Distribution::uniform, 0, 1)};
  std::vector<Observation> seen;
  for (int i = 0; i < 40; ++i) {
    const double x = (i + 0.5) / 40;
    seen.push_back({{{"x", std::to_string(x)}}, x < 0.5 ? std::optional<double>(1) : std::optional<double>(NAN)});
  }
  int low = 0;
  for (int64_t trial = 40; trial < 80; ++trial) low += number(propose_trial(space, seen, false, 1, trial), "x") < 0.5;
  EXPECT_GE(low, 36) << "of 40";
}

TEST(Tpe, TrialsThatLackAParameterDoNotCountForIt) {
  std::vector<Observation> seen;
  for (int64_t trial = 0; trial < 12; ++trial) seen.push_back({{{"rate", "0.1"}}, 1.0});
  EXPECT_EQ(propose_trial(kMixedSpace, seen, false, 1, 12).size(), 3U);
}

TEST(TpeDensities, ParzenDensityIntegratesToOne) {
  for (const std::vector<UnitInterval>& seen : std::vector<std::vector<UnitInterval>>{
           {}, {{0.2, 0.2}}, {{0, 0}, {0.01, 0.01}, {1, 1}}, {{0.5, 0.5}, {0.5, 0.5}}}) {
    const ParzenDensity density(seen);
    double sum = 0, mass = 0;
    const int n = 20000;
    for (int i = 0; i < n; ++i) sum += std::exp(density.log_density({(i + 0.5) / n, (i + 0.5) / n})) / n;
    for (int i = 0; i < 10; ++i) mass += std::exp(density.log_density({i / 10.0, (i + 1) / 10.0}));
    EXPECT_NEAR(sum, 1, 1e-4);
    EXPECT_NEAR(mass, 1, 1e-12);
  }
}

TEST(TpeDensities, DrawsFollowTheDensity) {
  const ParzenDensity density({{0.9, 0.9}, {0.95, 0.95}, {0.97, 0.97}});
  int above = 0;
  const int n = 100;
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) above += density.draw((i + 0.5) / n, (j + 0.5) / n) >= 0.8;
  EXPECT_NEAR(above / 1e4, std::exp(density.log_density({0.8, 1})), 0.01);
}

TEST(TpeDensities, CategoriesAreSmoothed) {
  const CategoryDensity density(categories("c", {"a", "b"}), {"a", "a"});
  EXPECT_NEAR(density.probability(0), 0.75, 1e-9);
  EXPECT_EQ(density.draw(0.74), 0U);
  EXPECT_EQ(density.draw(0.76), 1U);
}

}  // namespace

}  // namespace foretime::jobs
