#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "jobs/error.h"
#include "jobs/queue/queue_reader.h"
#include "jobs/queue/redis_queue.h"
#include "tests/jobs/queue/queue_backends.h"
#include "tests/simulation/redis/model_connection.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/processes.h"

/// What users of Redis may do, and what goes on while its memory is full.
namespace foretime::jobs {
namespace {

using testing::eventually;
using testing::RedisServer;

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
    if (model_) model_->trouble.full = full;
    else RedisClient(server_->url()).call({"CONFIG", "SET", "maxmemory", full ? "1" : "0"});
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

// Promise redis/memory-full: at `maxmemory`, jobs end and reaping frees memory; only submitting is refused
TEST_P(MemoryIsFull, RunningJobsEndAndReapingFreesMemoryWhileSubmissionIsRefused) {
  auto& queue = backend_->queue();
  queue.create_sweep({.id = "s", .name = "sweep", .method = "grid"});
  for (const auto* id : {"run", "late", "fail", "wait", "sweep"}) {
    auto spec = job_named(id);
    if (std::string(id) == "sweep") spec.sweep = "s";
    queue.submit(spec);
  }
  const auto run = queue.claim(claim_request("t1")).value(), late = queue.claim(claim_request("t2")).value();
  set_full(true);
  const auto refusal = testing::message_of<RedisUnavailable>([&] { queue.submit(job_named("more")); });
  EXPECT_MESSAGE(refusal);
  EXPECT_THROW(queue.create_sweep({.id = "s2", .name = "sweep", .method = "grid"}), RedisUnavailable);
  EXPECT_EQ(queue.renew(run, Milliseconds(30000)), Directive::proceed);
  EXPECT_EQ(queue.report(run, {.step = 1, .total_steps = 2, .log_lines = {"line"}}), Directive::proceed);
  const auto fail = queue.claim(claim_request("t3")).value();
  EXPECT_TRUE(queue.finish(fail, {.outcome = Outcome::failed}, 0));
  EXPECT_TRUE(queue.finish(run, {.metrics = {{"opa", 0.5}}, .objective = 0.5}, 0));
  EXPECT_EQ(queue.cancel("wait"), CancelOutcome::cancelled);
  EXPECT_EQ(queue.cancel_sweep("s"), 1);
  queue.retry("fail");
  EXPECT_EQ(queue.claim(claim_request("t4"))->job, "fail");
  EXPECT_FALSE(queue.claim(claim_request("t5")));
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
  for (const auto& [name, script] : queue_scripts()) {
    const bool adds = name == "submit" || name == "create_sweep";
    EXPECT_TRUE(script.text.starts_with(adds ? "#!lua\n" : "#!lua flags=allow-oom\n")) << name;
  }
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
  auto lease = queue.claim(claim_request("t1")).value();
  EXPECT_EQ(queue.renew(lease, Milliseconds(10000)), Directive::proceed);
  EXPECT_EQ(queue.report(lease, report), Directive::proceed);
  EXPECT_TRUE(queue.finish(lease, {}, 0));
  lease = queue.claim(claim_request("t2")).value();
  EXPECT_TRUE(queue.finish(lease, {.outcome = Outcome::error}, 0));
  queue.cancel("b");
  queue.retry("b");
  queue.pause("s");
  EXPECT_FALSE(queue.claim(claim_request("t3")));
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

}  // namespace
}  // namespace foretime::jobs
