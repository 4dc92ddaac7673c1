#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "jobs/error.h"
#include "jobs/queue/queue_reader.h"
#include "tests/jobs/queue/queue_backends.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/processes.h"

/// Records that somebody damaged: no agent, no script and no reader may end over one.
namespace foretime::jobs {
namespace {

using ::testing::HasSubstr;

class DamagedRecords : public ::testing::Test {
 protected:
  DamagedRecords() : settings_(fresh_settings()), backend_(shared_server().url(), settings_) {}

  RedisQueue& queue() { return backend_.queue(); }
  void damage(const std::string& job, const std::string& field, const std::string& value) {
    backend_.client().call({"HSET", backend_.key("job:" + job), field, value});
  }
  std::optional<Lease> claim() {
    return queue().claim({"agent", fmt::format("t{}", ++tokens_), 8, 2, Milliseconds(1000)});
  }
  /// What an agent would do with a job that it cannot read, then with the next one.
  void expect_ends_dead(const std::string& field, const std::string& value, const std::string& said) {
    SCOPED_TRACE(field + " = " + value.substr(0, 40));
    const auto bad = fmt::format("bad{}", ++jobs_), good = fmt::format("good{}", jobs_);
    queue().submit(job_named(bad));
    queue().submit(job_named(good));
    damage(bad, field, value);
    const auto lease = claim();
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease->job, good);
    EXPECT_TRUE(queue().finish(*lease, {}, 0));
    QueueReader reader(backend_.client(), settings_);
    const auto record = reader.job(bad).value();
    EXPECT_EQ(record.state, JobState::dead);
    EXPECT_MESSAGE(record.reason);
    EXPECT_THAT(record.error, HasSubstr(said));
    EXPECT_THAT(record.unreadable, HasSubstr(said));
  }

  QueueSettings settings_;
  RedisBackend backend_;
  int tokens_ = 0, jobs_ = 0;
};

// Promise redis/record-damaged: a damaged record ends its job, but no agent and no reader
TEST_F(DamagedRecords, AJobOfAnUnknownKindEndsDeadAndTheAgentGoesOn) {
  expect_ends_dead("kind", "distill", "field kind: job kind 'distill': expected one of train");
  expect_ends_dead("spec", "{}", "field kind");
}

TEST_F(DamagedRecords, AClaimThatComesWithAnEndPassesThemByToo) {
  queue().submit(job_named("first"));
  const auto first = claim().value();
  queue().submit(job_named("bad"));
  damage("bad", "kind", "distill");
  queue().submit(job_named("good"));
  const auto done = queue().finish_and_claim(first, {}, 0, {"agent", "next", 8, 2, Milliseconds(1000)});
  EXPECT_TRUE(done.finished);
  ASSERT_TRUE(done.next);
  EXPECT_EQ(done.next->job, "good");
  EXPECT_EQ(text_of(*backend_.client().call({"HGET", backend_.key("job:bad"), "state"})), "dead");
}

// Promise redis/record-demands: a job's demands are checked when it is claimed
TEST_F(DamagedRecords, ClaimsCheckWhatAJobDemands) {
  expect_ends_dead("gpus", "-3", "resources.gpus: -3, expected 0 to");
  expect_ends_dead("ranks", "0", "resources.ranks: 0, expected 1 to");
  expect_ends_dead("most_ranks", "1", "resources.ranks.max: 1, expected 2 to");
  expect_ends_dead("most_ranks", "-1", "resources.ranks.max: -1, expected 2 to");
  expect_ends_dead("max_attempts", "100000", "max_attempts: 100000");
}

/// Their demand is part of where they wait.
TEST_F(DamagedRecords, AJobThatWasDamagedBeforeItCameToWaitEndsDead) {
  for (const auto& [field, value] : std::vector<std::pair<std::string, std::string>>{
           {"gpus", "-3"}, {"cpus", "-1"}, {"ranks", "1e300"}, {"gpus", "1e18"}, {"ranks", "0"}}) {
    SCOPED_TRACE(field + " = " + value);
    const auto id = fmt::format("late{}", ++jobs_);
    queue().submit(job_named(id));
    const auto lease = claim().value();
    EXPECT_TRUE(queue().finish(lease, {.outcome = Outcome::error}, 0));
    damage(id, field, value);
    backend_.advance(600'000);
    EXPECT_FALSE(claim());
    EXPECT_EQ(QueueReader(backend_.client(), settings_).job(id).value().state, JobState::dead);
  }
}

TEST_F(DamagedRecords, ManyDamagedRecordsDoNotHoldUpTheJobsBehind) {
  for (int i = 0; i < 40; ++i) {
    queue().submit(job_named(fmt::format("bad{}", i)));
    damage(fmt::format("bad{}", i), "kind", "distill");
  }
  queue().submit(job_named("behind"));
  const auto wake_ups = queue().wake_ups();
  std::optional<Lease> lease;
  for (int i = 0; i < 3 && !lease; ++i) {
    lease = claim();
    EXPECT_TRUE(lease || testing::eventually([&] { return wake_ups->take(); })) << i;
  }
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->job, "behind");
}

// Promise redis/record-damaged
TEST_F(DamagedRecords, AnyFieldThatCannotBeReadEndsItsJobOnly) {
  for (const auto* field : {"most_ranks", "attempt_ranks", "trial", "step", "loss", "eta_s", "cpus", "objective",
                            "log_lines", "submitted_ms"})
    expect_ends_dead(field, "x", fmt::format("field {}", field));
  for (const auto* field : {"parameters", "after", "metrics", "spec"})
    expect_ends_dead(field, "[1", fmt::format("field {}", field));
  expect_ends_dead("goal", "best", "field goal");
  expect_ends_dead("settings", std::string(300'000, 's'), "field settings: 300000 bytes, expected at most");
  const auto statistics = QueueReader(backend_.client(), settings_).statistics();
  EXPECT_EQ(statistics.totals.at("unreadable"), statistics.totals.at("dead"));
  EXPECT_EQ(statistics.totals.at("unreadable"), jobs_);
}

/// Nothing reads 65 MiB, by whatever field they are in; the next job is claimed by the same call.
// Promise redis/record-too-large: a record too large to be read ends its job, delays no other, and hides none from
// readers
TEST_F(DamagedRecords, AJobWhoseRecordIsTooLargeEndsDeadByAClaimAndHoldsUpNobody) {
  const std::string giant(65 << 20, 'x');
  for (const auto* field : {"settings", "spec", "error", "metrics", "unknown"}) {
    SCOPED_TRACE(field);
    const auto bad = fmt::format("bad{}", ++jobs_), needs = fmt::format("needs{}", jobs_),
               good = fmt::format("good{}", jobs_);
    queue().submit(job_named(bad));
    auto child = job_named(needs);
    child.after = {bad};
    queue().submit(child);
    queue().submit(job_named(good));
    damage(bad, field, giant);
    QueueReader reader(backend_.client(), settings_);
    auto records = reader.jobs({bad, good});
    ASSERT_EQ(records.size(), 2U) << "before any claim, the others are shown";
    EXPECT_MESSAGE(records[0].unreadable);
    EXPECT_EQ(records[1].unreadable, "");
    const auto lease = claim();
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease->job, good);
    EXPECT_TRUE(queue().finish(*lease, {}, 0));
    const auto record = reader.job(bad).value();
    EXPECT_EQ(record.state, JobState::dead);
    EXPECT_MESSAGE(record.reason);
    EXPECT_MESSAGE(record.error);
    if (std::string_view(field) != "unknown") {
      EXPECT_THAT(record.error, HasSubstr(fmt::format("field {} 68157440 bytes", field)));
    }
    EXPECT_EQ(reader.job(needs).value().state, JobState::cancelled);
    EXPECT_FALSE(claim()) << "nothing is left of it where it waited";
  }
  const auto statistics = QueueReader(backend_.client(), settings_).statistics();
  EXPECT_EQ(statistics.totals.at("unreadable"), jobs_);
  EXPECT_EQ(statistics.jobs.at(JobState::dead), jobs_);
}

// Promise redis/record-too-large
TEST_F(DamagedRecords, ARecordThatIsTooLargeIsPassedByAClaimThatComesWithAnEnd) {
  queue().submit(job_named("warm-up"));
  EXPECT_TRUE(queue().finish(claim().value(), {}, 0));
  queue().submit(job_named("first"));
  const auto first = claim().value();
  queue().submit(job_named("bad"));
  damage("bad", "history", std::string(5 << 20, 'x'));
  queue().submit(job_named("good"));
  const auto done = queue().finish_and_claim(first, {}, 0, {"agent", "next", 8, 2, Milliseconds(1000)});
  EXPECT_TRUE(done.finished);
  ASSERT_TRUE(done.next);
  EXPECT_EQ(done.next->job, "good");
  EXPECT_EQ(text_of(*backend_.client().call({"HGET", backend_.key("job:bad"), "state"})), "dead");
}

TEST_F(DamagedRecords, AsLargeARecordAsCanBeSubmittedIsClaimed) {
  auto spec = job_named("large");
  spec.settings = std::string(Limits::kSettings, 's');
  queue().submit(spec);
  damage("large", "metrics", "{}" + std::string(2 * Limits::kResult - 2, ' '));
  damage("large", "checkpoint", std::string(Limits::kResult, 'c'));
  const auto lease = claim();
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->spec.settings.size(), Limits::kSettings);
}

/// Whatever stands in a field, every script works for the other jobs.
TEST_F(DamagedRecords, NoScriptFailsOverADamagedField) {
  const std::vector<std::string> garbage = {
      "x", "-1", "1e300", "nan", "[", "[1,{}]", "{\"ranks\":[],\"goal\":{},\"after\":null,\"kind\":true}"};
  for (const auto* field : {"ranks",      "cpus",           "gpus",
                            "most_ranks", "priority",       "sequence",
                            "sweep",      "pending",        "after",
                            "fence",      "failures",       "max_attempts",
                            "attempt",    "results",        "log_lines",
                            "objective",  "best_objective", "term_ms",
                            "due_ms",     "goal",           "kind",
                            "deferred",   "step",           "lost",
                            "lost_step",  "preemptions",    "preemptions_step",
                            "spec",       "lease",          "token",
                            "agent",      "claimed_ms"}) {
    for (const auto& value : garbage) {
      SCOPED_TRACE(fmt::format("{} = {}", field, value));
      backend_.client().call({"FLUSHDB"});
      backend_.advance(0);
      queue().create_sweep({.id = "s", .name = "sweep", .method = "grid", .halving = {{1}, 2}});
      for (const auto* id : {"waiting", "active", "delayed", "lost", "failed", "need"}) {
        auto spec = job_named(id);
        if (std::string(id) != "need") spec.sweep = "s";
        queue().submit(spec);
      }
      auto blocked = job_named("blocked");
      blocked.after = {"need"};
      queue().submit(blocked);
      std::map<std::string, Lease> leases;
      queue().set_priority("waiting", -1);
      for (int i = 0; i < 5; ++i) {
        const auto lease = claim().value();
        leases[lease.job] = lease;
      }
      queue().finish(leases["delayed"], {.outcome = Outcome::error}, 0);
      queue().finish(leases["failed"], {.outcome = Outcome::failed}, 0);
      for (const auto* id : {"waiting", "active", "delayed", "lost", "failed", "blocked"}) damage(id, field, value);
      backend_.advance(700);
      const auto tolerates = [](const auto& call) {
        try {
          call();
        } catch (const JobRefused&) {
        } catch (const std::exception& error) {
          ADD_FAILURE() << error.what();
        }
      };
      tolerates([&] { queue().renew(leases["active"], Milliseconds(1000)); });
      tolerates([&] { queue().report(leases["active"], {.iteration = 1, .objective = 0.5, .log_lines = {"line"}}); });
      tolerates([&] { queue().propose(leases["active"], {{"a", "1"}}); });
      tolerates([&] { queue().finish(leases["active"], {.objective = 0.5}, 0); });
      tolerates([&] { queue().finish(leases["need"], {}, 0); });
      tolerates([&] { queue().retry("failed"); });
      tolerates([&] { queue().set_priority("waiting", 2); });
      tolerates([&] { queue().pause("s"); });
      tolerates([&] { claim(); });
      tolerates([&] { queue().resume("s"); });
      backend_.advance(400);
      for (int i = 0; i < 3; ++i) tolerates([&] { queue().reap(); });
      backend_.advance(20'000);
      for (int i = 0; i < 7; ++i) {
        tolerates([&] { queue().reap(); });
        tolerates([&] {
          if (const auto lease = claim()) queue().finish(*lease, {.outcome = Outcome::error}, 0);
        });
      }
      tolerates([&] { queue().cancel("waiting"); });
      tolerates([&] { queue().cancel_sweep("s"); });
      queue().submit(job_named("healthy"));
      std::optional<Lease> lease;
      for (int i = 0; i < 10 && !(lease && lease->job == "healthy"); ++i) lease = claim();
      EXPECT_TRUE(lease && lease->job == "healthy");
    }
  }
}

TEST_F(DamagedRecords, AKeyOfAnotherTypeKeepsNobodyFromTheOtherJobs) {
  for (const auto* id : {"text", "good"}) queue().submit(job_named(id));
  backend_.client().call({"DEL", backend_.key("job:text")});
  backend_.client().call({"SET", backend_.key("job:text"), "text"});
  EXPECT_EQ(claim()->job, "good");
  queue().reap();
  QueueReader reader(backend_.client(), settings_);
  const auto records = reader.jobs({"text", "good"});
  ASSERT_EQ(records.size(), 2U);
  EXPECT_MESSAGE(records[0].unreadable);
  EXPECT_EQ(records[1].unreadable, "");
}

TEST_F(DamagedRecords, ReadersShowThemWithAMarkBesideTheOthers) {
  queue().create_sweep({.id = "s", .name = "sweep", .method = "grid"});
  for (const auto* id : {"a", "b", "c"}) {
    auto spec = job_named(id);
    spec.sweep = "s";
    queue().submit(spec);
  }
  damage("a", "kind", "distill");
  damage("b", "state", "frozen");
  damage("a", "eta_s", "1e300");
  queue().heartbeat_agent({"one", "host", "1", 1, 1, 0, 0, false});
  queue().heartbeat_agent({"two", "host", "1", 1, 1, 0, 0, false});
  backend_.client().call({"HSET", backend_.key("agent:one"), "cpus", "many"});
  QueueReader reader(backend_.client(), settings_);
  const auto records = reader.jobs({"a", "b", "c"});
  ASSERT_EQ(records.size(), 3U);
  EXPECT_THAT(records[0].unreadable, HasSubstr("field kind"));
  EXPECT_EQ(records[0].spec.name, "job a");
  EXPECT_EQ(records[0].spec.metric, "opa");
  EXPECT_EQ(records[0].eta_seconds, 0);
  EXPECT_THAT(records[1].unreadable, HasSubstr("field state"));
  EXPECT_EQ(records[2].unreadable, "");
  int64_t unreadable = 0;
  const auto states = reader.states(reader.ids_of_sweep("s"), unreadable);
  EXPECT_EQ(unreadable, 1);
  EXPECT_EQ(std::count(states.begin(), states.end(), JobState::waiting), 2);
  const auto agents = reader.statistics().agents;
  ASSERT_EQ(agents.size(), 2U);
  EXPECT_THAT(agents[0].unreadable, HasSubstr("field cpus"));
  EXPECT_EQ(agents[1].cpus, 1);
}

TEST_F(DamagedRecords, DamagedTotalsEventsAndSettingsHideNothingElse) {
  queue().submit(job_named("a"));
  queue().heartbeat_agent({"one", "host", "1", 1, 1, 0, 0, false});
  auto& client = backend_.client();
  client.call({"HSET", backend_.key("totals"), "claimed", "few"});
  client.call({"XADD", backend_.key("events"), "*", "job", "a"});
  client.call({"HSET", backend_.key("settings"), "keep_finished_ms", "long"});
  client.call({"SET", backend_.key("state:dead"), "text"});
  client.call({"ZADD", backend_.key("agents"), "1", std::string(300, 'n')});
  const auto found = QueueReader(client, settings_).statistics();
  EXPECT_THAT(found.unreadable,
              ::testing::UnorderedElementsAre(HasSubstr("totals: field claimed"), HasSubstr("field event"),
                                              HasSubstr("settings: field keep_finished_ms"), HasSubstr("state:dead"),
                                              HasSubstr("agents: a member")));
  EXPECT_EQ(found.totals.at("submitted"), 1);
  EXPECT_EQ(found.totals.count("claimed"), 0U);
  EXPECT_EQ(found.jobs.at(JobState::waiting), 1);
  EXPECT_GT(found.per_minute.at("submitted"), 0);
  ASSERT_EQ(found.agents.size(), 1U);
  EXPECT_EQ(found.agents[0].name, "one");
}

}  // namespace
}  // namespace foretime::jobs
