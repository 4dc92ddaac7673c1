#include "jobs/queue/redis_queue.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "jobs/error.h"
#include "jobs/queue/queue_reader.h"
#include "tests/jobs/queue/queue_backends.h"
#include "tests/simulation/redis/model_connection.h"
#include "tests/support/message_of.h"
#include "tests/support/processes.h"

/// What only a real Redis can show: its clock, its rights, its death, its speed.
namespace foretime::jobs {
namespace {

using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;
using testing::eventually;
using testing::RedisServer;

ClaimRequest request(const std::string& token, Milliseconds term = Milliseconds(30000)) {
  return {"agent", token, 8, 0, term};
}

TEST(RedisQueue, TakesTheTimeFromRedis) {
  RedisClient client(shared_server().url());
  const auto settings = fresh_settings();
  RedisQueue queue(client, settings);
  client.call({"SET", "{" + settings.prefix + "}:test_clock", "1"});  // means nothing without the constructor's say
  queue.submit(job_named("j"));
  const auto before = std::chrono::system_clock::now().time_since_epoch() / std::chrono::milliseconds(1);
  const auto lease = queue.claim(request("t", Milliseconds(300))).value();
  EXPECT_GE(lease.deadline_ms, before + 300);
  EXPECT_LT(lease.deadline_ms, before + 60'000);
  // Reaping all the time, so that there is no silence to forgive.
  EXPECT_TRUE(eventually([&] { return queue.reap().lost_leases == 1; }));
  EXPECT_EQ(queue.claim(request("t2"))->fence, 2);
  EXPECT_FALSE(queue.finish(lease, {}, 0));
}

TEST(RedisQueue, ManyClaimantsNeverShareAJob) {
  const auto settings = fresh_settings();
  RedisClient client(shared_server().url());
  RedisQueue queue(client, settings);
  for (int i = 0; i < 200; ++i) queue.submit(job_named(fmt::format("j{}", i)));
  std::vector<std::vector<std::string>> got(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < got.size(); ++t)
    threads.emplace_back([&, t] {
      RedisClient own(shared_server().url());
      RedisQueue mine(own, settings);
      for (int i = 0;; ++i) {
        const auto lease = mine.claim(request(fmt::format("t{}-{}", t, i)));
        if (!lease) break;
        got[t].push_back(lease->job);
        EXPECT_TRUE(mine.finish(*lease, {}, 0));
      }
    });
  for (auto& thread : threads) thread.join();
  std::multiset<std::string> all;
  for (const auto& some : got) all.insert(some.begin(), some.end());
  EXPECT_EQ(all.size(), 200U);
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), 200U);
}

/// Changes of keys since the server began.
int64_t changes(RedisClient& client) {
  return std::stoll(info_field(text_of(*client.call({"INFO", "persistence"})), "rdb_changes_since_last_save"));
}

TEST(RedisQueue, AnIdleAgentWritesNothing) {
  RedisServer server({true, "no", {"save ''"}});
  RedisClient client(server.url());
  RedisQueue queue(client, {});
  const AgentInfo agent{"agent", "host", "1", 1, 1, 1, 0, false};
  queue.heartbeat_agent(agent);
  EXPECT_TRUE(queue.finish((queue.submit(job_named("done")), queue.claim(request("t")).value()), {}, 0));
  auto large = job_named("large");
  large.resources.cpus = 64;
  queue.submit(large);
  EXPECT_FALSE(queue.claim(request("first")));  // tidies up where the finished job waited
  queue.reap();                                 // notes the clock, as it does twice a minute
  const auto before = changes(client);
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(queue.claim(request(fmt::format("idle{}", i))));
    queue.reap();
    queue.heartbeat_agent(agent);
  }
  EXPECT_EQ(changes(client), before);
}

TEST(RedisQueue, JobsThatComeToWaitAreAnnouncedWithTheirNumber) {
  const auto settings = fresh_settings();
  RedisClient client(shared_server().url());
  RedisQueue queue(client, settings);
  RedisConnection listener(shared_server().url(), std::chrono::seconds(5), 1 << 20);
  listener.send({{"SUBSCRIBE", "{" + settings.prefix + "}:wake"}});
  listener.receive("SUBSCRIBE");
  const auto message = [&] { return texts_of(*listener.receive("SUBSCRIBE")).at(2); };
  queue.submit(job_named("a"));
  EXPECT_EQ(message(), "1");
  auto child = job_named("child");
  child.after = {"a"};
  const std::vector<JobSpec> more = {job_named("b"), job_named("c"), child};
  queue.submit_all(more);
  EXPECT_EQ(message(), "2") << "the child does not wait yet";
  const auto lease = queue.claim(request("t")).value();
  EXPECT_TRUE(queue.finish(lease, {}, 0));
  EXPECT_EQ(message(), "1") << "now it does";
  EXPECT_TRUE(queue.finish(queue.claim(request("u")).value(), {.outcome = Outcome::preempted}, 0));
  EXPECT_EQ(message(), "1");
}

int64_t script_calls(RedisClient& client) {
  return std::stoll(info_field(text_of(*client.call({"INFO", "commandstats"})), "cmdstat_evalsha").substr(6));
}

TEST(RedisQueue, AJobThatFollowsAnotherCostsOneCall) {
  RedisServer server({true, "no", {}});
  RedisClient client(server.url());
  RedisQueue queue(client, {});
  std::vector<JobSpec> specs;
  for (int i = 0; i < 41; ++i) specs.push_back(job_named(fmt::format("j{:02}", i)));
  queue.submit_all(specs);
  auto lease = queue.claim(request("t")).value();
  lease = queue.finish_and_claim(lease, {}, 0, request("first")).next.value();  // the scripts are there
  const auto before = script_calls(client);
  for (int i = 0; i < 39; ++i)
    lease = queue.finish_and_claim(lease, {}, 0, request(fmt::format("t{}", i))).next.value();
  EXPECT_EQ(script_calls(client) - before, 39);
  EXPECT_EQ(lease.job, "j40");
}

/// Commands that Redis has run, also those of scripts, and bytes of its append-only file.
struct Work {
  int64_t commands = 0, bytes = 0;
};
Work work_of(RedisClient& client) {
  Work work;
  const auto stats = text_of(*client.call({"INFO", "commandstats"}));
  for (size_t at = 0; (at = stats.find(":calls=", at)) != std::string::npos; ++at)
    work.commands += std::stoll(stats.substr(at + 7));
  work.bytes = std::stoll(info_field(text_of(*client.call({"INFO", "persistence"})), "aof_current_size"));
  return work;
}

/// Where Redis' one thread is the limit, its commands are what a queue's speed is made of, and under a busy disk the
/// bytes that it appends.
TEST(RedisQueue, AJobsLifeTakesFewCommandsAndFewBytesOfTheLog) {
  RedisServer server({true, "no", {"auto-aof-rewrite-percentage 0"}});
  RedisClient client(server.url());
  RedisQueue queue(client, {});
  queue.create_sweep({.id = "s", .name = "sweep", .method = "grid", .settings = std::string(2000, 's')});
  constexpr int kJobs = 256;
  std::vector<JobSpec> specs;
  for (int i = 0; i < kJobs; ++i) {
    specs.push_back(job_named(fmt::format("j{:015}", i)));
    specs.back().sweep = "s";
    specs.back().trial = i;
    specs.back().settings = kSweepSettings;
  }
  const auto before = work_of(client);
  queue.submit_all(specs);
  auto lease = queue.claim(request("first"));
  for (int i = 0; lease; ++i) {
    const JobResult result{.metrics = {{"valid/mae", 0.125}, {"valid/opa", 0.75}}, .objective = 0.125, .seconds = 1.5};
    lease = queue.finish_and_claim(*lease, result, 0, request(fmt::format("t{}", i))).next;
  }
  const auto after = work_of(client);
  const auto commands = (after.commands - before.commands) / kJobs, bytes = (after.bytes - before.bytes) / kJobs;
  fmt::print("{} commands and {} bytes of the append-only file for each job\n", commands, bytes);
  EXPECT_LE(commands, 36);
  EXPECT_LE(bytes, 3000);
  EXPECT_EQ(queue.find(specs.back().id)->state, JobState::succeeded);
}

/// The settings of a sweep come once to each agent, also where another one's trials lie between.
TEST(RedisQueue, TheTrialsOfASweepShareItsSettingsAlsoOnTheWire) {
  RedisServer server({false, "no", {}});
  RedisClient client(server.url());
  RedisQueue queue(client, {});
  const std::string settings = "trainer: {steps: 10}\n#" + std::string(50'000, 's') + "\n";
  for (const auto* sweep : {"s", "other"}) {
    queue.create_sweep({.id = sweep, .name = sweep, .method = "grid", .settings = settings + sweep});
    for (int i = 0; i < 30; ++i) {
      auto spec = job_named(fmt::format("{}{}", sweep, i));
      spec.sweep = sweep;
      spec.trial = i;
      spec.settings = kSweepSettings;
      queue.submit(spec);
    }
  }
  queue.submit(job_named("alone"));
  const auto sent = [&] {
    return std::stoll(info_field(text_of(*client.call({"INFO", "stats"})), "total_net_output_bytes"));
  };
  const auto before = sent();
  auto lease = queue.claim(request("t"));
  for (int i = 0; i < 60; ++i) {
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease->spec.settings, settings + lease->spec.sweep);
    lease = queue.finish_and_claim(*lease, {}, 0, request(fmt::format("t{}", i))).next;
  }
  EXPECT_LT(sent() - before, 4 * static_cast<int64_t>(settings.size()));
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->spec.settings, job_named("alone").settings);
  // Also where a sweep of that id came anew, with other settings.
  client.call({"FLUSHALL"});
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  queue.create_sweep({.id = "other", .name = "other", .method = "grid", .settings = "trainer: {steps: 20}\n"});
  auto spec = job_named("fresh");
  spec.sweep = "other";
  spec.settings = kSweepSettings;
  queue.submit(spec);
  EXPECT_EQ(queue.claim(request("fresh"))->spec.settings, "trainer: {steps: 20}\n");
}

/// HDEL came later than the other rights (docs/reference/jobs.md).
TEST(RedisQueue, AUserWithTheRightsOfEarlierVersionsEndsJobs) {
  RedisServer server({false, "no", {}});
  RedisClient admin(server.url());
  auto rights = documented_acl("foretime");
  ASSERT_EQ(std::erase(rights, "+hdel"), 1U);
  admin.call(rights);
  auto url = server.url();
  url.user = "foretime";
  url.password = "PASSWORD";
  RedisClient client(url);
  RedisQueue queue(client, {});
  for (const auto* id : {"good", "bad"}) queue.submit(job_named(id));
  const auto good = queue.claim(request("t1")).value(), bad = queue.claim(request("t2")).value();
  EXPECT_TRUE(queue.finish(good, {.metrics = {{"opa", 0.5}}, .objective = 0.5, .checkpoint = "runs/good"}, 0));
  EXPECT_TRUE(queue.finish(bad, {.outcome = Outcome::failed, .error = "exit code 2"}, 0));
  const auto record = queue.find("good").value();
  EXPECT_EQ(record.state, JobState::succeeded);
  EXPECT_EQ(record.objective, 0.5);
  EXPECT_EQ(record.checkpoint, "runs/good");
  EXPECT_TRUE(record.spec == job_named("good"));
  EXPECT_EQ(queue.find("bad")->error, "exit code 2");
  EXPECT_EQ(texts_of(*admin.call({"HMGET", "{foretime}:job:good", "token", "sequence"})),
            (std::vector<std::string>{"", ""}));
}

TEST(RedisQueue, ManyJobsAreSubmittedInFewCalls) {
  RedisServer server({true, "always", {}});
  RedisClient client(server.url());
  RedisQueue queue(client, {});
  std::vector<JobSpec> specs;
  for (int i = 0; i < 10'000; ++i) specs.push_back(job_named(fmt::format("j{}", i)));
  const auto start = Clock::now();
  queue.submit_all(specs);
  // A durable round trip each took four times as long, and the number of calls tells on any machine.
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(8));
  const auto stat = text_of(*client.call({"INFO", "commandstats"}));
  const auto at = stat.find("cmdstat_evalsha:calls=");
  ASSERT_NE(at, std::string::npos);
  EXPECT_LT(std::stoi(stat.substr(at + 22)), 10'000 / 32);
}

TEST(RedisQueue, AnActiveJobWithoutALeaseIsAnOrphan) {
  RedisBackend backend(shared_server().url(), fresh_settings());
  backend.queue().submit(job_named("j"));
  const auto lease = backend.queue().claim(request("t")).value();
  backend.client().call({"DEL", backend.key("leases")});
  EXPECT_EQ(backend.queue().reap().orphans, 1);
  EXPECT_EQ(backend.queue().find("j")->state, JobState::waiting);
  EXPECT_EQ(backend.queue().claim(request("t2"))->fence, 2);
  EXPECT_EQ(backend.queue().renew(lease, Milliseconds(1000)), Directive::lost);
}

/// The first batch of a cancellation, by a client that dies then.
void begin_to_cancel(RedisBackend& backend, const std::string& sweep) {
  const auto script = load_scripts(QueueClock::test_key).at("cancel_sweep");
  const auto reply = backend.client().script(script.text, script.sha1, {backend.key("")}, {"10000", sweep, "start"});
  EXPECT_EQ(text_of(*reply->element[0]), "again");
}

void submit_trials(RedisBackend& backend, int trials) {
  backend.queue().create_sweep({.id = "s", .name = "sweep", .method = "grid"});
  std::vector<JobSpec> specs;
  for (int i = 0; i < trials; ++i) {
    auto& spec = specs.emplace_back(job_named(fmt::format("s-{}", i)));
    spec.sweep = "s";
    spec.trial = i;
  }
  backend.queue().submit_all(specs);
}

TEST(RedisQueue, ACancellationWhoseClientDiesGoesOnByReaping) {
  RedisBackend backend(shared_server().url(), fresh_settings());
  submit_trials(backend, 1000);
  const auto lease = backend.queue().claim(request("t")).value();
  begin_to_cancel(backend, "s");
  EXPECT_EQ(backend.dump().at("state:cancelled").size(), 64U);
  int reaps = 0;
  while (backend.queue().reap().more) ++reaps;
  EXPECT_GE(reaps, 13);
  EXPECT_EQ(backend.dump().at("state:cancelled").size(), 999U);
  EXPECT_EQ(backend.dump().count("cancelling"), 0U);
  EXPECT_EQ(backend.queue().renew(lease, Milliseconds(1000)), Directive::cancel);
}

/// Also when jobs of the sweep are forgotten in between, which moves the others to earlier places.
TEST(RedisQueue, ACancellationOverlooksNoJob) {
  auto settings = fresh_settings();
  settings.keep_finished = Milliseconds(1000);
  RedisBackend backend(shared_server().url(), settings);
  submit_trials(backend, 400);
  for (int i = 0; i < 100; ++i)
    backend.queue().finish(backend.queue().claim(request(fmt::format("t{}", i))).value(), {}, 0);
  backend.queue().reap();
  begin_to_cancel(backend, "s");
  backend.advance(2000);
  while (backend.queue().reap().more) {
  }
  const auto dump = backend.dump();
  EXPECT_EQ(dump.count("state:waiting"), 0U);
  EXPECT_EQ(dump.count("state:succeeded"), 0U);
}

TEST(RedisQueue, ClaimsHandOutWorkBehindACancelledSweepInOneCall) {
  RedisBackend backend(shared_server().url(), fresh_settings());
  submit_trials(backend, 900);
  for (int i = 0; i < 5; ++i) backend.queue().submit(job_named(fmt::format("other{}", i)));
  begin_to_cancel(backend, "s");
  const auto before = script_calls(backend.client());
  EXPECT_EQ(backend.queue().claim(request("t"))->job, "other0");
  EXPECT_EQ(script_calls(backend.client()) - before, 1) << "the agent's loop waits for no cancellation";
  EXPECT_EQ(backend.dump().at("state:cancelled").size(), 128U);
}

/// A claim looks at a bounded number of jobs. Whoever listens must not wait for long before it goes on.
TEST(RedisQueue, AClaimThatABoundEndedAsksForAnotherOne) {
  RedisBackend backend(shared_server().url(), fresh_settings());
  submit_trials(backend, 4000);
  backend.queue().pause("s");
  backend.queue().submit(job_named("behind"));
  const auto wake_ups = backend.queue().wake_ups();
  std::optional<Lease> lease;
  for (int i = 0; i < 5 && !lease; ++i) {
    lease = backend.queue().claim(request(fmt::format("t{}", i)));
    EXPECT_TRUE(lease || eventually([&] { return wake_ups->take(); })) << i;
  }
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->job, "behind");
  const auto later = backend.queue().wake_ups();
  EXPECT_FALSE(backend.queue().claim(request("last")));
  EXPECT_FALSE(later->take()) << "nothing waits behind";
}

TEST(RedisQueue, ASlotThatBecomesFreeTakesTheJobBehindAPausedSweep) {
  RedisBackend backend(shared_server().url(), fresh_settings());
  backend.queue().submit(job_named("first"));
  const auto lease = backend.queue().claim(request("t")).value();
  submit_trials(backend, 1500);
  backend.queue().pause("s");
  backend.queue().submit(job_named("behind"));
  const auto done = backend.queue().finish_and_claim(lease, {}, 0, request("u"));
  EXPECT_TRUE(done.finished);
  ASSERT_TRUE(done.next);
  EXPECT_EQ(done.next->job, "behind");
}

/// What frees memory, and what running jobs need, works when Redis' memory is at its limit.
class MemoryIsFull : public ::testing::TestWithParam<std::string> {
 protected:
  MemoryIsFull() {
    settings_.backoff_base = settings_.backoff_cap = Milliseconds(1000);
    settings_.keep_finished = Milliseconds(5000);
    if (GetParam() == "redis") {
      server_ = std::make_unique<RedisServer>(RedisServer::Options{false, "no", {}});
      backend_ = std::make_unique<RedisBackend>(server_->url(), settings_);
    } else {
      model_ = std::make_shared<simulation::RedisModel>([] { return kStart * 1000; });
      RedisUrl url;
      url.host = "model";
      backend_ = std::make_unique<RedisBackend>(
          url, settings_, [this](const auto&...) { return std::make_unique<simulation::ModelConnection>(model_); });
    }
  }
  void set_full(bool full) {
    if (model_)
      model_->trouble.full = full;
    else
      RedisClient(server_->url()).call({"CONFIG", "SET", "maxmemory", full ? "1" : "0"});
  }
  /// The test's clock is a key, which cannot be written while memory is full.
  void advance(int64_t milliseconds) {
    set_full(false);
    backend_->advance(milliseconds);
    set_full(true);
  }

  QueueSettings settings_;
  std::unique_ptr<RedisServer> server_;
  std::shared_ptr<simulation::RedisModel> model_;
  std::unique_ptr<RedisBackend> backend_;
};

TEST_P(MemoryIsFull, RunningJobsEndAndReapingFreesMemoryWhileSubmissionIsRefused) {
  auto& queue = backend_->queue();
  queue.create_sweep({.id = "s", .name = "sweep", .method = "grid"});
  for (const auto* id : {"run", "late", "fail", "wait", "sweep"}) {
    auto spec = job_named(id);
    if (std::string(id) == "sweep") spec.sweep = "s";
    queue.submit(spec);
  }
  const auto run = queue.claim(request("t1")).value(), late = queue.claim(request("t2")).value();
  set_full(true);
  const auto refusal = testing::message_of<RedisUnavailable>([&] { queue.submit(job_named("more")); });
  EXPECT_THAT(refusal, HasSubstr("its memory is at maxmemory, so nothing can be submitted; raise maxmemory there"));
  EXPECT_THROW(queue.create_sweep({.id = "s2", .name = "sweep", .method = "grid"}), RedisUnavailable);
  EXPECT_EQ(queue.renew(run, Milliseconds(30000)), Directive::proceed);
  EXPECT_EQ(queue.report(run, {.step = 1, .total_steps = 2, .log_lines = {"line"}}), Directive::proceed);
  const auto fail = queue.claim(request("t3")).value();
  EXPECT_TRUE(queue.finish(fail, {.outcome = Outcome::failed}, 0));
  EXPECT_TRUE(queue.finish(run, {.metrics = {{"opa", 0.5}}, .objective = 0.5}, 0));
  EXPECT_EQ(queue.cancel("wait"), CancelOutcome::cancelled);
  EXPECT_EQ(queue.cancel_sweep("s"), 1);
  queue.retry("fail");
  EXPECT_EQ(queue.claim(request("t4"))->job, "fail");
  EXPECT_FALSE(queue.claim(request("t5")));
  queue.heartbeat_agent({"agent", "host", "1", 1, 1, 1, 1, false});
  advance(100);
  EXPECT_FALSE(queue.reap().more);
  EXPECT_EQ(queue.find("run")->state, JobState::succeeded);
  advance(6000);
  EXPECT_EQ(queue.renew(late, Milliseconds(30000)), Directive::proceed);
  EXPECT_EQ(queue.reap().expired, 3);  // run, wait, sweep
  set_full(false);
  EXPECT_TRUE(queue.submit(job_named("more")));
}

INSTANTIATE_TEST_SUITE_P(Queues, MemoryIsFull, ::testing::Values("model", "redis"),
                         [](const auto& info) { return info.param; });

TEST(RedisQueue, EveryScriptDeclaresItsFlags) {
  for (const auto& [name, script] : load_scripts(QueueClock::redis)) {
    const bool adds = name == "submit" || name == "create_sweep";
    EXPECT_TRUE(script.text.starts_with(adds ? "#!lua\n" : "#!lua flags=allow-oom\n")) << name;
  }
}

TEST(RedisQueue, TheFirstAnswerHowLongJobsAreKeptHoldsForAllAgents) {
  const auto settings = fresh_settings();
  RedisBackend backend(shared_server().url(), settings);
  auto hasty_settings = settings;
  hasty_settings.keep_finished = Milliseconds(1000);
  RedisClient client(shared_server().url());
  RedisQueue hasty(client, hasty_settings, QueueClock::test_key);
  const Retention first{settings.keep_finished, 7}, other{Milliseconds(1000), 0};
  EXPECT_EQ(backend.queue().agree_to_keep(first, false), first);
  EXPECT_EQ(hasty.agree_to_keep(other, false), first);
  backend.queue().submit(job_named("j"));
  backend.queue().finish(backend.queue().claim(request("t")).value(), {}, 0);
  hasty.reap();
  backend.advance(5000);
  EXPECT_EQ(hasty.reap().expired, 0);
  EXPECT_EQ(QueueReader(client, settings).statistics().keep_finished_ms, settings.keep_finished.count());
  EXPECT_EQ(QueueReader(client, settings).statistics().keep_jobs, 7);
  EXPECT_EQ(hasty.agree_to_keep({.time = Milliseconds(2000)}, true), (Retention{Milliseconds(2000), 7}));
  EXPECT_EQ(backend.queue().reap().expired, 1);
}

TEST(RedisQueue, KeysOfAnotherTypeAreAnError) {
  RedisBackend backend(shared_server().url(), fresh_settings());
  backend.client().call({"SET", backend.key("job:j"), "text"});
  EXPECT_THROW(backend.queue().find("j"), RedisRefused);
  backend.client().call({"DEL", backend.key("job:j")});
  backend.queue().submit(job_named("j"));
  backend.client().call({"SET", backend.key("alive_ms"), "0"});
  backend.client().call({"DEL", backend.key("shapes")});
  backend.client().call({"SET", backend.key("shapes"), "text"});
  EXPECT_THAT(testing::message_of<RedisRefused>([&] { backend.queue().claim(request("t")); }), HasSubstr("WRONGTYPE"));
}

TEST(RedisQueue, DamagedFieldsAreNamed) {
  RedisBackend backend(shared_server().url(), fresh_settings());
  backend.queue().submit(job_named("j"));
  const auto message = [&](const std::string& field, const std::string& value) {
    const auto old = text_of(*backend.client().call({"HGET", backend.key("job:j"), field}));
    backend.client().call({"HSET", backend.key("job:j"), field, value});
    const auto text = testing::message_of<JobsError>([&] { backend.queue().find("j"); });
    backend.client().call({"HSET", backend.key("job:j"), field, old});
    return text;
  };
  EXPECT_THAT(message("step", "many"), HasSubstr("job j: field step: 'many', expected an integer"));
  EXPECT_THAT(message("loss", "1e"), HasSubstr("field loss"));
  EXPECT_THAT(message("parameters", "[1]"), HasSubstr("field parameters"));
  EXPECT_THAT(message("settings", std::string(Limits::kSettings + 1, 'x')), HasSubstr("field settings"));
  EXPECT_THAT(message("state", "lost"), HasSubstr("job state 'lost'"));
}

TEST(RedisQueue, EverythingAcknowledgedSurvivesAKill) {
  RedisServer server({true, "always", {}});
  std::vector<std::string> acknowledged;
  std::atomic<int> count{0};
  std::thread submitter([&] {
    RedisClient client(server.url());
    RedisQueue queue(client, {});
    try {
      for (int i = 0;; ++i) {
        const auto id = fmt::format("j{}", i);
        queue.submit(job_named(id));
        acknowledged.push_back(id);
        ++count;
      }
    } catch (const RedisUnavailable&) {
    }
  });
  EXPECT_TRUE(eventually([&] { return count >= 50; }));
  server.kill9();
  submitter.join();
  server.restart();
  RedisClient client(server.url());
  RedisQueue queue(client, {});
  for (const auto& id : acknowledged) EXPECT_TRUE(queue.find(id)) << id << " of " << acknowledged.size();
  // The scripts are gone from Redis' cache, and the queue goes on all the same.
  EXPECT_EQ(queue.claim(request("t"))->job, "j0");
}

TEST(RedisQueue, TheDocumentedUsersCanDoTheirPartAndNoMore) {
  RedisServer server({false, "no", {}});
  RedisClient admin(server.url());
  for (const auto* name : {"foretime", "foretime-observer"}) admin.call(documented_acl(name));
  auto url = server.url();
  url.user = "foretime";
  url.password = "PASSWORD";
  RedisClient client(url);
  RedisQueue queue(client, {});
  SweepSpec sweep{.id = "s", .halving = {{1}, 3}};
  queue.create_sweep(sweep);
  for (const auto* id : {"a", "b", "c", "d", "e"}) {
    auto spec = job_named(id);
    spec.sweep = "s";
    if (spec.id == "c") spec.after = {"b"};
    queue.submit(spec);
  }
  queue.set_priority("a", 2);
  JobReport report{.iteration = 1, .objective = 1, .log_lines = {"line"}};
  auto lease = queue.claim(request("t1")).value();
  EXPECT_EQ(queue.renew(lease, Milliseconds(10000)), Directive::proceed);
  EXPECT_EQ(queue.report(lease, report), Directive::proceed);
  EXPECT_TRUE(queue.finish(lease, {}, 0));
  lease = queue.claim(request("t2")).value();
  EXPECT_TRUE(queue.finish(lease, {.outcome = Outcome::error}, 0));
  queue.cancel("b");
  queue.retry("b");
  queue.pause("s");
  EXPECT_FALSE(queue.claim(request("t3")));
  queue.resume("s");
  queue.pause("");
  queue.resume("");
  queue.heartbeat_agent({"agent", "host", "1", 1, 1, 1, 1, false});
  queue.cancel_sweep("s");
  const QueueSettings no_keeping{.keep_finished = Milliseconds(1)};
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(RedisQueue(client, no_keeping).reap().expired, 5);

  // It listens on the queue's channel, on which its scripts publish, and on no other.
  RedisQueue listening(client, {});
  const auto wake_ups = listening.wake_ups();
  queue.submit(job_named("last"));
  EXPECT_TRUE(eventually([&] { return wake_ups->take(); }));
  EXPECT_THROW(client.subscribe("other"), RedisRefused);
  EXPECT_THROW(client.call({"PUBLISH", "other", "1"}), RedisRefused);

  EXPECT_THROW(client.call({"GET", "other"}), RedisRefused);
  EXPECT_THROW(client.call({"FLUSHALL"}), RedisRefused);
  EXPECT_THROW(client.call({"CONFIG", "SET", "dir", "/tmp"}), RedisRefused);
  EXPECT_THROW(client.call({"KEYS", "*"}), RedisRefused);
  EXPECT_THROW(client.script("return redis.call('SET', 'other', '1')", std::string(40, '0'), {"{foretime}:"}, {}),
               RedisRefused);

  url.user = "foretime-observer";
  RedisClient eyes(url);
  RedisQueue watched(eyes, {});
  EXPECT_EQ(watched.find("last")->state, JobState::waiting);
  EXPECT_EQ(texts_of(*eyes.call({"ZRANGE", "{foretime}:ids", "0", "-1"})), std::vector<std::string>{"last"});
  for (RedisClient* connection : {&eyes, &client}) {
    QueueReader reader(*connection, {});
    EXPECT_EQ(reader.resolve_job("las"), "last");
    EXPECT_EQ(reader.ids_in(JobState::waiting, 10), std::vector<std::string>{"last"});
    EXPECT_EQ(reader.statistics().jobs[JobState::waiting], 1);
    EXPECT_TRUE(reader.sweeps(10).empty());
    EXPECT_TRUE(reader.ids_of_sweep("s").empty());
    int64_t lines = 0;
    EXPECT_TRUE(reader.log("last", lines).empty());
  }
  EXPECT_THROW(eyes.call({"SET", "{foretime}:paused", "1"}), RedisRefused);
  EXPECT_THROW(watched.pause(""), RedisRefused);
  EXPECT_THROW(watched.wake_ups(), RedisRefused) << "it watches, and is told nothing";
  EXPECT_THROW(eyes.call({"GET", "other"}), RedisRefused);
}

/// Milliseconds that `repeat` calls take.
double cost(int repeat, const std::function<void(int)>& call) {
  const auto start = Clock::now();
  for (int i = 0; i < repeat; ++i) call(i);
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

TEST(RedisQueue, AHundredThousandWaitingJobsDoNotSlowItDown) {
  constexpr int kCalls = 300;
  const auto fill = [](RedisClient& client, const std::string& prefix, int jobs) {
    // Copies of one job that was submitted, made by Redis itself; submitting as many takes ten times as long.
    client.call({"EVAL", R"lua(
      local P, n, fields = KEYS[1], tonumber(ARGV[1]), redis.call('HGETALL', KEYS[1] .. 'job:template')
      for i = 2, n do
        local id, score = 'filler' .. i, redis.call('INCR', P .. 'sequence')
        redis.call('HSET', P .. 'job:' .. id, unpack(fields))
        redis.call('HSET', P .. 'job:' .. id, 'id', id, 'sequence', score)
        redis.call('ZADD', P .. 'waiting:c1g0', score, id)
        redis.call('ZADD', P .. 'state:waiting', 1, id)
        redis.call('ZADD', P .. 'ids', 0, id)
      end)lua",
                 "1", "{" + prefix + "}:", std::to_string(jobs)});
  };
  double ratio_submit = 1e9, ratio_claim = 1e9;
  RedisServer server({false, "no", {}});
  RedisClient client(server.url(), std::chrono::seconds(60));
  const QueueSettings few = fresh_settings(), many = fresh_settings();
  RedisQueue small(client, few), large(client, many);
  small.submit(job_named("template"));
  large.submit(job_named("template"));
  fill(client, few.prefix, 100);
  fill(client, many.prefix, 100'000);
  // Of several rounds the best time of each counts: other work on this machine only makes a round worse.
  double submit_few = 1e9, submit_many = 1e9, claim_few = 1e9, claim_many = 1e9;
  for (int round = 0; round < 3 || (round < 10 && (ratio_submit > 2 || ratio_claim > 2)); ++round) {
    const auto measure = [&](RedisQueue& queue, double& submit, double& claim) {
      const auto name = [&](int i) { return fmt::format("r{}-{}", round, i); };
      submit = std::min(submit, cost(kCalls, [&](int i) { queue.submit(job_named(name(i))); }));
      claim = std::min(claim, cost(kCalls, [&](int i) { EXPECT_TRUE(queue.claim(request(name(i)))); }));
    };
    measure(small, submit_few, claim_few);
    measure(large, submit_many, claim_many);
    ratio_submit = submit_many / submit_few;
    ratio_claim = claim_many / claim_few;
  }
  RecordProperty("submit_ratio", std::to_string(ratio_submit));
  RecordProperty("claim_ratio", std::to_string(ratio_claim));
  std::printf("100,000 waiting against 100: submit %.2f times, claim %.2f times as long\n", ratio_submit, ratio_claim);
  EXPECT_LT(ratio_submit, 2.0);
  EXPECT_LT(ratio_claim, 2.0);
}

}  // namespace
}  // namespace foretime::jobs
