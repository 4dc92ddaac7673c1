#include "jobs/queue/queue_reader.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "jobs/error.h"
#include "tests/jobs/queue/queue_backends.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"

namespace foretime::jobs {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A queue on a real Redis, and a reader who may read and nothing else.
class QueueReaderTest : public ::testing::Test {
 protected:
  QueueReaderTest()
      : settings_(fresh_settings()),
        admin_(shared_server().url()),
        queue_(admin_, settings_),
        eyes_(reader_url()),
        reader_(eyes_, settings_) {}

  RedisUrl reader_url() {
    admin_.call(documented_acl("foretime-observer", settings_.prefix));
    auto url = shared_server().url();
    url.user = "foretime-observer";
    url.password = "PASSWORD";
    return url;
  }
  std::string key(const std::string& rest) const { return "{" + settings_.prefix + "}:" + rest; }

  SweepSpec add_sweep(const std::string& id) {
    SweepSpec sweep{.id = id,
                    .name = "learning rates",
                    .method = "bayes",
                    .definition = R"({"a":1})",
                    .metric = "opa",
                    .maximize = false,
                    .trials = 3,
                    .seed = 18446744073709551615U,
                    .halving = {{1, 3, 9}, 3}};
    queue_.create_sweep(sweep);
    return sweep;
  }
  void add_job(const std::string& id, const std::string& sweep = "", int64_t trial = -1) {
    auto spec = job_named(id);
    spec.sweep = sweep;
    spec.trial = trial;
    queue_.submit(spec);
  }
  Lease claim(const std::string& token) { return queue_.claim({"agent", token, 1, 0, Milliseconds(60000)}).value(); }
  QueueSettings settings_;
  RedisClient admin_;
  RedisQueue queue_;
  RedisClient eyes_;
  QueueReader reader_;
};

TEST_F(QueueReaderTest, ReadsAJobAsTheQueueDoes) {
  add_job("job1");
  const auto lease = claim("t");
  JobReport report{.step = 5,
                   .total_steps = 10,
                   .eta_seconds = 2.5,
                   .loss = 0.25,
                   .iteration = 1,
                   .objective = 0.5,
                   .metrics = {{"opa", 0.5}, {"tau", -0.125}},
                   .checkpoint = "job1/attempt-1/checkpoint-5"};
  queue_.report(lease, report);
  const auto job = reader_.job("job1").value();
  const auto expected = queue_.find("job1").value();
  EXPECT_TRUE(job.spec == expected.spec);
  EXPECT_EQ(job.state, JobState::active);
  EXPECT_EQ(job.agent, "agent");
  EXPECT_EQ(job.step, 5);
  EXPECT_EQ(job.eta_seconds, 2.5);
  EXPECT_EQ(job.objective, 0.5);
  EXPECT_EQ(job.metrics, report.metrics);
  EXPECT_EQ(job.checkpoint, report.checkpoint);
  EXPECT_EQ(job.updated_ms, expected.updated_ms);
  EXPECT_FALSE(reader_.job("job"));
  EXPECT_FALSE(reader_.job("job1:log"));
  EXPECT_FALSE(reader_.job(""));
}

TEST_F(QueueReaderTest, ReadsThousandsOfJobsInOrder) {
  std::vector<std::string> ids;
  for (int i = 0; i < 1500; ++i) {
    ids.push_back(fmt::format("j{:04}", i));
    add_job(ids.back());
  }
  auto wanted = ids;
  std::reverse(wanted.begin(), wanted.end());
  wanted.insert(wanted.begin() + 700, "forgotten");
  std::vector<std::string> found;
  for (const auto& job : reader_.jobs(wanted)) found.push_back(job.spec.id);
  EXPECT_EQ(found, std::vector<std::string>(ids.rbegin(), ids.rend()));
  EXPECT_EQ(reader_.ids_in(JobState::waiting, 100000).size(), ids.size());
  EXPECT_EQ(reader_.ids_in(JobState::waiting, 3).size(), 3U);
  EXPECT_EQ(reader_.ids_in(JobState::waiting, 0).size(), 0U);
  EXPECT_EQ(reader_.ids_in(JobState::dead, 3).size(), 0U);
}

TEST_F(QueueReaderTest, GivesTheNewestFirst) {
  add_sweep("s1");
  add_sweep("s2");
  for (const auto* id : {"a", "b", "c"}) add_job(id);
  // Redis' clock may not have moved in between.
  for (const auto& [set, id, score] :
       {std::array{"sweeps", "s1", "5"}, std::array{"sweeps", "s2", "9"}, std::array{"state:waiting", "a", "7"},
        std::array{"state:waiting", "b", "9"}, std::array{"state:waiting", "c", "8"}})
    admin_.call({"ZADD", key(set), score, id});
  EXPECT_THAT(reader_.sweeps(10), ElementsAre("s2", "s1"));
  EXPECT_THAT(reader_.sweeps(1), ElementsAre("s2"));
  EXPECT_THAT(reader_.ids_in(JobState::waiting, 2), ElementsAre("b", "c"));
}

TEST_F(QueueReaderTest, ReadsASweep) {
  const auto spec = add_sweep("s1");
  add_job("a", "s1", 2);
  add_job("b", "s1", 0);
  add_job("c", "s1", 1);
  EXPECT_TRUE(queue_.finish(claim("t"), {}, 0));
  EXPECT_THAT(reader_.ids_of_sweep("s1"), ElementsAre("b", "c", "a"));
  auto sweep = reader_.sweep("s1").value();
  EXPECT_TRUE(sweep.spec == spec);
  EXPECT_EQ(sweep.state, "running");
  EXPECT_GT(sweep.created_ms, 1'600'000'000'000);
  int64_t unreadable = 0;
  EXPECT_THAT(reader_.states({"b", "c", "a"}, unreadable),
              ElementsAre(JobState::waiting, JobState::waiting, JobState::succeeded));
  queue_.pause("s1");
  EXPECT_EQ(reader_.sweep("s1")->state, "paused");
  admin_.call({"DEL", key("job:c")});
  EXPECT_THAT(reader_.states({"c", "a"}, unreadable), ElementsAre(std::nullopt, JobState::succeeded));
  EXPECT_EQ(unreadable, 0);
  EXPECT_FALSE(reader_.sweep("s"));
}

TEST_F(QueueReaderTest, ReadsTheRingOfALog) {
  add_job("a");
  int64_t total = -1;
  EXPECT_TRUE(reader_.log("a", total).empty());
  EXPECT_EQ(total, 0);
  const auto lease = claim("t");
  JobReport report;
  for (int i = 0; i < 150; ++i) report.log_lines.push_back(fmt::format("line {}", i));
  queue_.report(lease, report);
  EXPECT_EQ(reader_.log("a", total), report.log_lines);
  EXPECT_EQ(total, 150);
  queue_.report(lease, report);
  const auto ring = reader_.log("a", total);
  EXPECT_EQ(total, 300);
  EXPECT_EQ(static_cast<int64_t>(ring.size()), Limits::kLogLines);
  EXPECT_EQ(ring.front(), "line 100");
  EXPECT_EQ(ring.back(), "line 149");
}

TEST_F(QueueReaderTest, ResolvesUniquePrefixes) {
  for (const auto* id : {"abc1", "abc2", "abcd", "abcde", "b1"}) add_job(id);
  for (const auto* id : {"f00d", "f11d", "f11", "cafe"}) add_sweep(id);
  EXPECT_EQ(reader_.resolve_job("b"), "b1");
  EXPECT_EQ(reader_.resolve_job("abc2"), "abc2");
  EXPECT_EQ(reader_.resolve_job("abcd"), "abcd") << "a full id, though another one begins so";
  EXPECT_EQ(reader_.resolve_sweep("f0"), "f00d");
  EXPECT_EQ(reader_.resolve_sweep("f11"), "f11");
  const auto job = [&](const std::string& prefix) {
    return testing::message_of<JobRefused>([&] { reader_.resolve_job(prefix); });
  };
  const auto sweep = [&](const std::string& prefix) {
    return testing::message_of<JobRefused>([&] { reader_.resolve_sweep(prefix); });
  };
  EXPECT_THAT(job("abc"), AllOf(HasSubstr("ambiguous"), HasSubstr("abc1, abc2, abcd, abcde;")));
  EXPECT_THAT(sweep("f"), AllOf(HasSubstr("ambiguous"), HasSubstr("f00d"), HasSubstr("f11d")));
  for (const auto& nothing : {"x", "abcdef", "", "[", "*", "b1 ", "B1", "\x1b[31m"}) {
    EXPECT_MESSAGE(job(nothing)) << nothing;
    EXPECT_MESSAGE(sweep(nothing)) << nothing;
  }
  EXPECT_EQ(job("\x1b[31m").find('\x1b'), std::string::npos);
  for (int i = 0; i < 20; ++i) add_job(fmt::format("many{}", i));
  EXPECT_THAT(job("many"), HasSubstr(", …;"));
  EXPECT_LT(job("many").size(), 200U);
}

TEST_F(QueueReaderTest, TellsSweepsFromJobs) {
  for (const auto* id : {"a1", "both", "c7", "d"}) add_job(id);
  for (const auto* id : {"a2", "both", "c", "dd", "e1"}) add_sweep(id);
  EXPECT_TRUE(reader_.is_sweep("e"));
  EXPECT_FALSE(reader_.is_sweep("a1"));
  EXPECT_TRUE(reader_.is_sweep("a2"));
  EXPECT_FALSE(reader_.is_sweep("zzz"));
  EXPECT_TRUE(reader_.is_sweep("c")) << "a full id wins over the beginning of another";
  EXPECT_FALSE(reader_.is_sweep("d"));
  const auto both = [&](const std::string& prefix) {
    return testing::message_of<JobRefused>([&] { reader_.is_sweep(prefix); });
  };
  EXPECT_MESSAGE(both("a"));
  EXPECT_MESSAGE(both("both"));
}

TEST_F(QueueReaderTest, CountsAndTotals) {
  EXPECT_EQ(reader_.statistics().oldest_waiting_ms, 0);
  for (const auto* id : {"a", "b", "c", "d"}) add_job(id);
  EXPECT_TRUE(queue_.finish(claim("t1"), {}, 0));
  const auto lease = claim("t2");
  queue_.cancel("c");
  auto stale = lease;
  stale.fence = 77;
  queue_.renew(stale, Milliseconds(1000));
  queue_.heartbeat_agent({"z", "host1", "0.1.0", 42, 8, 2, 1, false});
  queue_.heartbeat_agent({"y", "host2", "0.1.0", 43, 4, 0, 0, false, "data root /data: is empty"});
  const auto statistics = reader_.statistics();
  EXPECT_EQ(statistics.jobs.size(), 9U);
  EXPECT_EQ(statistics.jobs.at(JobState::succeeded), 1);
  EXPECT_EQ(statistics.jobs.at(JobState::active), 1);
  EXPECT_EQ(statistics.jobs.at(JobState::cancelled), 1);
  EXPECT_EQ(statistics.jobs.at(JobState::waiting), 1);
  EXPECT_EQ(statistics.jobs.at(JobState::held), 0);
  EXPECT_EQ(statistics.totals.at("submitted"), 4);
  EXPECT_EQ(statistics.totals.at("claimed"), 2);
  EXPECT_EQ(statistics.totals.at("refused"), 1);
  EXPECT_EQ(statistics.totals.at("lost_leases"), 0);
  EXPECT_FALSE(statistics.paused);
  // Within an hour of now, whatever the machine's load.
  EXPECT_GE(statistics.oldest_waiting_ms, 1);
  EXPECT_LT(statistics.oldest_waiting_ms, 3600'000);
  ASSERT_EQ(statistics.agents.size(), 2U);
  EXPECT_EQ(statistics.agents[0].name, "y");
  EXPECT_EQ(statistics.agents[0].trouble, "data root /data: is empty");
  EXPECT_EQ(statistics.agents[1].trouble, "");
  EXPECT_EQ(statistics.agents[1].host, "host1");
  EXPECT_EQ(statistics.agents[1].pid, 42);
  EXPECT_EQ(statistics.agents[1].gpus, 2);
  EXPECT_LE(statistics.agents[1].seen_ms, statistics.now_ms);
  EXPECT_FALSE(statistics.agents[1].runs_programs);
  EXPECT_EQ(statistics.waiting_for_programs, 0);
  auto program = job_named("program");
  program.program = "0a";
  queue_.submit(program);
  queue_.heartbeat_agent({.name = "z", .runs_programs = true});
  EXPECT_EQ(reader_.statistics().waiting_for_programs, 1);
  EXPECT_TRUE(reader_.statistics().agents[1].runs_programs);
  queue_.pause("");
  EXPECT_TRUE(reader_.statistics().paused);
}

/// Over a stream that was never trimmed, rates are a fifth of the totals: both count the same transitions.
TEST_F(QueueReaderTest, RatesAgreeWithTotals) {
  settings_.backoff_base = settings_.backoff_cap = settings_.loss_backoff_cap = Milliseconds(0);
  settings_.most_losses = 3;
  RedisQueue queue(admin_, settings_);
  for (const auto* id : {"a", "b", "c", "d", "e", "f"}) add_job(id);
  auto child = job_named("child");
  child.after = {"b"};
  queue.submit(child);
  const auto end = [&](Outcome outcome) {
    const auto lease = claim(fmt::format("t{}", static_cast<int>(outcome)));
    EXPECT_TRUE(queue.finish(lease, {.outcome = outcome}, 0)) << to_string(outcome);
    return lease;
  };
  end(Outcome::succeeded);                            // a
  end(Outcome::failed);                               // b, and with it its child
  queue.retry("b");                                   // the child is blocked again
  end(Outcome::preempted);                            // b
  queue.renew(end(Outcome::error), Milliseconds(1));  // b; the renewal is refused
  queue.cancel("c");
  const auto lose = [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    queue.reap();
  };
  for (int i = 0; i < 3; ++i) {
    const auto lease = queue.claim({"agent", fmt::format("short{}", i), 1, 0, Milliseconds(1)}).value();
    lose();
    if (i > 0) continue;
    queue.renew(lease, Milliseconds(1));  // it comes back, and is lost again
    lose();
  }
  const auto statistics = reader_.statistics();
  EXPECT_EQ(statistics.totals.at("lost_leases"), 4);
  EXPECT_EQ(statistics.totals.at("regained"), 1);
  EXPECT_EQ(statistics.totals.at("retried"), 1);
  EXPECT_EQ(statistics.totals.at("preempted"), 1);
  EXPECT_EQ(statistics.totals.at("refused"), 1);
  EXPECT_EQ(statistics.totals.at("dead"), 1);
  for (const auto& [name, rate] : statistics.per_minute)
    EXPECT_NEAR(rate, static_cast<double>(statistics.totals.at(name)) / 5, 1e-9) << name;
  EXPECT_EQ(statistics.per_minute.size() + 1, statistics.totals.size());
}

TEST_F(QueueReaderTest, RatesOverFiveMinutesOrOverWhatIsLeft) {
  const auto now = reader_.statistics().now_ms;
  std::vector<RedisClient::Arguments> calls;
  const auto add = [&](int64_t age_ms, int64_t sequence, const std::string& event) {
    calls.push_back({"XADD", key("events"), fmt::format("{}-{}", now - age_ms, sequence), "event", event, "job", "a",
                     "from", "", "to", "waiting", "fence", "0", "agent", ""});
  };
  for (int i = 0; i < 100; ++i) add(3600'000, i, "submit");  // long ago
  // Several in each millisecond, so that the pages of an answer end between equal times.
  for (int i = 0; i < 4500; ++i) add(120'000 - i / 7, i, i % 9 == 0 ? "claim" : "submit");
  admin_.pipeline(calls);
  const auto whole = reader_.statistics();
  EXPECT_NEAR(whole.per_minute.at("submitted"), 4000 / 5.0, 1e-9);
  EXPECT_NEAR(whole.per_minute.at("claimed"), 500 / 5.0, 1e-9);
  EXPECT_EQ(whole.per_minute.at("dead"), 0);

  // That stream, trimmed to what is two minutes old: 4500 entries, as many as are kept.
  admin_.call({"XTRIM", key("events"), "MAXLEN", "4500"});
  settings_.events = 4500;
  const auto cut = QueueReader(eyes_, settings_).statistics();
  const double minutes = static_cast<double>(cut.now_ms - (now - 120'000)) / 60000;
  EXPECT_NEAR(cut.per_minute.at("submitted"), 4000 / std::min(minutes, 5.0), 1e-6);
  EXPECT_NEAR(cut.per_minute.at("claimed"), 500 / std::min(minutes, 5.0), 1e-6);
}

struct Damage {
  std::vector<std::string> command;  // with the key's rest as its second word
  std::vector<std::string> named;    // what the message must name besides the key
  std::function<void(QueueReader&)> read;
};

TEST_F(QueueReaderTest, DamageIsNamedByKeyAndField) {
  // Records come with a mark, and entries of lists are left out and named, so that the others can still be seen.
  const auto job = [](QueueReader& o) {
    if (const auto found = o.job("a"); found && !found->unreadable.empty()) throw JobsError("{}", found->unreadable);
  };
  const auto sweep = [](QueueReader& o) {
    EXPECT_EQ(o.ids_of_sweep("s").size(), 1U);
    if (const auto found = o.sweep("s"); !found->damage.empty()) throw JobsError("{}", found->damage.begin()->second);
  };
  const auto listed = [](const std::vector<std::string>& ids, QueueReader& o) {
    EXPECT_EQ(std::ranges::count_if(ids, [](const auto& id) { return !is_id(id); }), 0);
    for (const auto& what : o.take_damage()) throw JobsError("{}", what);
  };
  const auto statistics = [](QueueReader& o) {
    const auto found = o.statistics();
    for (const auto& agent : found.agents)
      if (!agent.unreadable.empty()) throw JobsError("{}", agent.unreadable);
    for (const auto& what : found.unreadable) throw JobsError("{}", what);
  };
  const auto log = [](QueueReader& o) {
    int64_t total = 0;
    for (const auto& line : o.log("a", total))
      if (line.starts_with("[damaged: ")) throw JobsError("{}", line);
  };
  const std::string large(300 << 10, 'x');
  const std::vector<Damage> all = {
      {{"HSET", "job:a", "state", "lost\x1b[31m"}, {"field state", "'lost[31m'", "expected one of"}, job},
      {{"HDEL", "job:a", "state"}, {"field state"}, job},
      {{"HSET", "job:a", "kind", "format"}, {"field kind"}, job},
      {{"HSET", "job:a", "step", "1e3"}, {"field step", "'1e3'", "an integer"}, job},
      {{"HSET", "job:a", "fence", "99999999999999999999"}, {"field fence"}, job},
      {{"HSET", "job:a", "loss", "none"}, {"field loss", "a number"}, job},
      {{"HSET", "job:a", "eta_s", "1e300"}, {"field eta_s"}, job},
      {{"HSET", "job:a", "seconds", "inf"}, {"field seconds"}, job},
      {{"HSET", "job:a", "parameters", "[1]"}, {"field parameters", "JSON"}, job},
      {{"HSET", "job:a", "metrics", "{"}, {"field metrics"}, job},
      {{"HSET", "job:a", "after", std::string(5000, '[')}, {"field after"}, job},
      {{"HSET", "job:a", "ranks", "0"}, {"ranks", "expected 1 to"}, job},
      {{"HSET", "job:a", "settings", large}, {"field settings", "307200 bytes", "at most 262144"}, job},
      {{"HSET", "job:a", "error", large}, {"field error"}, job},
      {{"HSET", "job:a", "step", large}, {"field step"}, job},
      {{"HSET", "job:a", "name", "two\nlines"}, {"name", "control character"}, job},
      {{"SET", "job:a", "text"}, {"docs/reference/jobs.md"}, job},
      {{"SET", "job:a:log", "text"}, {"docs/reference/jobs.md"}, log},
      {{"HSET", "job:a", "log_lines", "many"}, {"field log_lines"}, log},
      {{"RPUSH", "job:a:log", large}, {"307200 bytes", "at most 2048"}, log},
      {{"HSET", "sweep:s", "state", "away"}, {"field state", "'away'", "running, paused or cancelled"}, sweep},
      {{"HSET", "sweep:s", "goal", "best"}, {"field goal", "maximize or minimize"}, sweep},
      {{"HSET", "sweep:s", "seed", "-1"}, {"field seed"}, sweep},
      {{"HSET", "sweep:s", "eta", "0.5"}, {"eta", "above 1"}, sweep},
      {{"HSET", "sweep:s", "rungs", "[3,1]"}, {"rungs"}, sweep},
      {{"HSET", "sweep:s", "rungs", "{\"a\":1}"}, {"field rungs"}, sweep},
      {{"HSET", "sweep:s", "definition", large}, {"field definition"}, sweep},
      {{"ZADD", "sweep:s:jobs", "1", "../a"},
       {"'../a'", "no id"},
       [&](QueueReader& o) { listed(o.ids_of_sweep("s"), o); }},
      {{"ZADD", "ids", "0", std::string("a") + std::string(80, 'x')},
       {"no id"},
       [&](QueueReader& o) { listed({o.resolve_job("a")}, o); }},
      {{"ZADD", "sweeps", "0", "x y"}, {"'x y'"}, [&](QueueReader& o) { listed(o.sweeps(10), o); }},
      {{"ZADD", "state:dead", "0", "x y"}, {"'x y'"}, [&](QueueReader& o) { listed(o.ids_in(JobState::dead, 10), o); }},
      {{"SET", "sweep:s", "text"}, {"docs/reference/jobs.md"}, sweep},
      {{"HSET", "sweep:s", "name",
        "a\x01"
        "b"},
       {"name", "control character"},
       sweep},
      {{"SET", "sweeps", "text"}, {"docs/reference/jobs.md"}, [&](QueueReader& o) { listed(o.sweeps(10), o); }},
      {{"SET", "ids", "text"},
       {"docs/reference/jobs.md"},
       [&](QueueReader& o) {
         try {
           o.resolve_job("a");
         } catch (const JobRefused&) {
         }
         listed({}, o);
       }},
      {{"SET", "job:a:artifacts", "text"},
       {"docs/reference/jobs.md"},
       [](QueueReader& o) {
         if (const auto found = o.artifacts("a"); !found.unreadable.empty()) throw JobsError("{}", found.unreadable);
       }},
      {{"HSET", "totals", "claimed", "few"}, {"field claimed"}, statistics},
      {{"ZADD", "state:waiting", "-inf", "a"}, {"score of a"}, statistics},
      {{"ZADD", "agents", "1", std::string(300, 'n')}, {"200 bytes"}, statistics},
      {{"HSET", "agent:agent", "cpus", "all"}, {"field cpus"}, statistics},
      {{"HSET", "agent:agent", "seen_ms", "-9223372036854775808"}, {"field seen_ms", "a time"}, statistics},
      {{"HSET", "sweep:s", "created_ms", "9223372036854775807"}, {"field created_ms"}, sweep},
      {{"HSET", "agent:agent", "host", large}, {"field host"}, statistics},
      {{"XADD", "events", "*", "job", "a"}, {"entry", "field event"}, statistics},
      {{"XADD", "events", "*", "event", large}, {"field event"}, statistics},
      {{"SET", "events", "text"}, {"docs/reference/jobs.md"}, statistics},
      {{"SET", "state:dead", "text"}, {"docs/reference/jobs.md"}, statistics},
  };
  for (const auto& damage : all) {
    add_sweep("s");
    add_job("a", "s", 0);
    queue_.heartbeat_agent({"agent", "host", "1", 1, 1, 0, 0, false});
    EXPECT_EQ(testing::message_of<JobsError>([&] { damage.read(reader_); }), "no exception");
    auto command = damage.command;
    command[1] = key(command[1]);
    if (command[0] == "SET") admin_.call({"DEL", command[1]});
    admin_.call(command);
    const auto message = testing::message_of<JobsError>([&] { damage.read(reader_); });
    const auto what = damage.command[1] + " " + damage.command[2].substr(0, 20) + ": " + message;
    EXPECT_THAT(message, HasSubstr(command[1])) << what;
    for (const auto& named : damage.named) EXPECT_THAT(message, HasSubstr(named)) << what;
    EXPECT_LT(message.size(), 500U) << what;
    EXPECT_EQ(message.find('\x1b'), std::string::npos) << what;
    for (const auto& name : texts_of(*admin_.call({"KEYS", key("*")}))) admin_.call({"DEL", name});
  }
}

TEST_F(QueueReaderTest, ItsUserMayNotWrite) {
  add_job("a");
  RedisQueue queue(eyes_, settings_);
  EXPECT_THROW(queue.cancel("a"), RedisRefused);
  EXPECT_THROW(eyes_.call({"SET", key("paused"), "1"}), RedisRefused);
  EXPECT_EQ(reader_.job("a")->state, JobState::waiting);
}

TEST(Prometheus, TextFormat) {
  QueueStatistics statistics;
  statistics.now_ms = 1'700'000'010'500;
  statistics.jobs = {{JobState::waiting, 7}, {JobState::active, 2}, {JobState::dead, 0}};
  statistics.totals = {{"submitted", 12}, {"claimed", 5}, {"lost_leases", 3}, {"results", 1}};
  statistics.oldest_waiting_ms = 90'250;
  statistics.paused = true;
  statistics.agents.resize(2);
  statistics.agents[0] = {"host:1:ab", "host", "1", 1'700'000'008'000, 0, 1, 8, 2, 2, false, "", "no space"};
  statistics.agents[1].name = "a\\b\"c\nd\x1b\xff";
  statistics.agents[1].seen_ms = 1'700'000'010'500;
  struct Family {
    std::string name, type, help;
    std::vector<std::string> samples;  // what follows the name
  };
  const std::vector<Family> families = {
      {"foretime_jobs",
       "gauge",
       "Jobs in each state.",
       {R"({state="waiting"} 7)", R"({state="active"} 2)", R"({state="dead"} 0)"}},
      {"foretime_oldest_waiting_seconds",
       "gauge",
       "How long the oldest waiting job waits; 0: none waits.",
       {" 90.250"}},
      {"foretime_queue_paused", "gauge", "1 while the whole queue is paused.", {" 1"}},
      {"foretime_jobs_submitted_total", "counter", "Jobs that were submitted.", {" 12"}},
      {"foretime_jobs_claimed_total", "counter", "Leases that were given out.", {" 5"}},
      {"foretime_jobs_succeeded_total", "counter", "Jobs that succeeded.", {" 0"}},
      {"foretime_jobs_stopped_total", "counter", "Of these, jobs that early stopping ended.", {" 0"}},
      {"foretime_jobs_failed_total", "counter", "Jobs that would fail again: settings, data.", {" 0"}},
      {"foretime_jobs_cancelled_total", "counter", "Jobs that were cancelled.", {" 0"}},
      {"foretime_jobs_dead_total", "counter", "Jobs that failed as often as they may.", {" 0"}},
      {"foretime_jobs_unreadable_total", "counter", "Of these, jobs whose record no agent could read.", {" 0"}},
      {"foretime_jobs_retried_total", "counter", "Jobs that somebody had tried again.", {" 0"}},
      {"foretime_jobs_preempted_total", "counter", "Attempts that their agent gave back.", {" 0"}},
      {"foretime_attempt_errors_total", "counter", "Attempts that ended in an error.", {" 0"}},
      {"foretime_leases_lost_total", "counter", "Leases that ran out.", {" 3"}},
      {"foretime_leases_regained_total", "counter", "Of these, leases that came back to their holders.", {" 0"}},
      {"foretime_writes_refused_total", "counter", "Writes with an old fence or token, which changed nothing.", {" 0"}},
      {"foretime_results_total", "counter", "Results that were written.", {" 1"}},
      {"foretime_agents", "gauge", "Agents heard of within a day.", {" 2"}},
      {"foretime_agent_last_seen_seconds",
       "gauge",
       "How long ago the agent was heard of.",
       {R"({agent="host:1:ab"} 2.500)", R"({agent="a\\b\"c\nd�"} 0.000)"}},
      {"foretime_agent_jobs",
       "gauge",
       "Jobs that the agent runs.",
       {R"({agent="host:1:ab"} 2)", R"({agent="a\\b\"c\nd�"} 0)"}},
      {"foretime_agent_cpus",
       "gauge",
       "CPUs that the agent has for jobs.",
       {R"({agent="host:1:ab"} 8)", R"({agent="a\\b\"c\nd�"} 0)"}},
      {"foretime_agent_gpus",
       "gauge",
       "GPUs that the agent has for jobs.",
       {R"({agent="host:1:ab"} 2)", R"({agent="a\\b\"c\nd�"} 0)"}},
      {"foretime_agent_in_trouble",
       "gauge",
       "1 while the agent claims nothing because its machine fails jobs.",
       {R"({agent="host:1:ab"} 1)", R"({agent="a\\b\"c\nd�"} 0)"}}};
  std::string expected;
  for (const auto& [name, type, help, samples] : families) {
    expected += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
    for (const auto& sample : samples) expected += name + sample + "\n";
  }
  EXPECT_EQ(to_prometheus(statistics), expected);
}

}  // namespace
}  // namespace foretime::jobs
