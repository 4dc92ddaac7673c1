#include "jobs/queue/redis_queue.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "jobs/error.h"
#include "jobs/queue/queue_reader.h"
#include "tests/jobs/queue/queue_backends.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/processes.h"

/// What only a real Redis can show: its clock, many clients at once, its death. Its rights and what it costs have files
/// of their own.
namespace foretime::jobs {
namespace {

using ::testing::HasSubstr;

using testing::eventually;

using testing::RedisServer;

TEST(RedisQueue, TakesTheTimeFromRedis) {
  RedisClient client(shared_server().url());
  const auto settings = fresh_settings();
  RedisQueue queue(client, settings);
  client.call({"SET", "{" + settings.prefix + "}:test_clock", "1"});  // means nothing without the constructor's say
  queue.submit(job_named("j"));
  const auto before = std::chrono::system_clock::now().time_since_epoch() / std::chrono::milliseconds(1);
  const auto lease = queue.claim(claim_request("t", Milliseconds(300))).value();
  EXPECT_GE(lease.deadline_ms, before + 300);
  EXPECT_LT(lease.deadline_ms, before + 60'000);
  // Reaping all the time, so that there is no silence to forgive.
  EXPECT_TRUE(eventually([&] { return queue.reap().lost_leases == 1; }));
  EXPECT_EQ(queue.claim(claim_request("t2"))->fence, 2);
  EXPECT_FALSE(queue.finish(lease, {}, 0));
}

TEST(RedisQueue, EventsSayWhyAttemptsEnded) {
  RedisClient client(shared_server().url());
  auto settings = fresh_settings();
  settings.backoff_base = settings.backoff_cap = Milliseconds(1);
  RedisQueue queue(client, settings);
  auto spec = job_named("j");
  spec.max_attempts = 9;
  queue.submit(spec);
  int token = 0;
  const auto attempt = [&](const JobResult& result) {
    std::optional<Lease> lease;
    EXPECT_TRUE(eventually([&] {
      queue.reap();
      return (lease = queue.claim(claim_request(fmt::format("t{}", ++token)))).has_value();
    }));
    EXPECT_TRUE(queue.finish(*lease, result, 0));
    std::map<std::string, std::string> fields;
    for (size_t i = 0; const auto& text :
                       texts_of(*client.call({"XREVRANGE", "{" + settings.prefix + "}:events", "+", "-", "COUNT", "1"})
                                     ->element[0]
                                     ->element[1])) {
      static std::string name;
      i++ % 2 == 0 ? name = text : fields[name] = text;
    }
    return fields.contains("why") ? fields["why"] : "nothing";
  };
  EXPECT_EQ(attempt({.outcome = Outcome::error, .error = "exit code 4\nstep 1\nno such file: x.npz\n\n"}),
            "exit code 4: no such file: x.npz");
  EXPECT_EQ(attempt({.outcome = Outcome::error, .error = "exit code 4"}), "exit code 4");
  EXPECT_EQ(attempt({.outcome = Outcome::error, .error = std::string(5000, 'x') + "\n"}), std::string(200, 'x'));
  EXPECT_EQ(attempt({.outcome = Outcome::preempted}), "preempted on " + claim_request("t").agent);
  EXPECT_EQ(attempt({.outcome = Outcome::succeeded}), "nothing");
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
        const auto lease = mine.claim(claim_request(fmt::format("t{}-{}", t, i)));
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
  const auto lease = queue.claim(claim_request("t")).value();
  EXPECT_TRUE(queue.finish(lease, {}, 0));
  EXPECT_EQ(message(), "1") << "now it does";
  EXPECT_TRUE(queue.finish(queue.claim(claim_request("u")).value(), {.outcome = Outcome::preempted}, 0));
  EXPECT_EQ(message(), "1");
}

TEST(RedisQueue, AnActiveJobWithoutALeaseIsAnOrphan) {
  RedisBackend backend(shared_server().url(), fresh_settings());
  backend.queue().submit(job_named("j"));
  const auto lease = backend.queue().claim(claim_request("t")).value();
  backend.client().call({"DEL", backend.key("leases")});
  EXPECT_EQ(backend.queue().reap().orphans, 1);
  EXPECT_EQ(backend.queue().find("j")->state, JobState::waiting);
  EXPECT_EQ(backend.queue().claim(claim_request("t2"))->fence, 2);
  EXPECT_EQ(backend.queue().renew(lease, Milliseconds(1000)), Directive::lost);
}

/// The first batch of a cancellation, by a client that dies then.
void begin_to_cancel(RedisBackend& backend, const std::string& sweep) {
  const auto script = scripts_by_test_clock().at("cancel_sweep");
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

// Promise agents/sweep-cancelled: a cancelled sweep outlives its client and delays no agent
TEST(RedisQueue, ACancellationWhoseClientDiesGoesOnByReaping) {
  RedisBackend backend(shared_server().url(), fresh_settings());
  submit_trials(backend, 1000);
  const auto lease = backend.queue().claim(claim_request("t")).value();
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
    backend.queue().finish(backend.queue().claim(claim_request(fmt::format("t{}", i))).value(), {}, 0);
  backend.queue().reap();
  begin_to_cancel(backend, "s");
  backend.advance(2000);
  while (backend.queue().reap().more) {
  }
  const auto dump = backend.dump();
  EXPECT_EQ(dump.count("state:waiting"), 0U);
  EXPECT_EQ(dump.count("state:succeeded"), 0U);
}

// Promise agents/sweep-cancelled
TEST(RedisQueue, ClaimsHandOutWorkBehindACancelledSweepInOneCall) {
  RedisBackend backend(shared_server().url(), fresh_settings());
  submit_trials(backend, 900);
  for (int i = 0; i < 5; ++i) backend.queue().submit(job_named(fmt::format("other{}", i)));
  begin_to_cancel(backend, "s");
  const auto before = script_calls(backend.client());
  EXPECT_EQ(backend.queue().claim(claim_request("t"))->job, "other0");
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
    lease = backend.queue().claim(claim_request(fmt::format("t{}", i)));
    EXPECT_TRUE(lease || eventually([&] { return wake_ups->take(); })) << i;
  }
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->job, "behind");
  const auto later = backend.queue().wake_ups();
  EXPECT_FALSE(backend.queue().claim(claim_request("last")));
  EXPECT_FALSE(later->take()) << "nothing waits behind";
}

TEST(RedisQueue, ASlotThatBecomesFreeTakesTheJobBehindAPausedSweep) {
  RedisBackend backend(shared_server().url(), fresh_settings());
  backend.queue().submit(job_named("first"));
  const auto lease = backend.queue().claim(claim_request("t")).value();
  submit_trials(backend, 1500);
  backend.queue().pause("s");
  backend.queue().submit(job_named("behind"));
  const auto done = backend.queue().finish_and_claim(lease, {}, 0, claim_request("u"));
  EXPECT_TRUE(done.finished);
  ASSERT_TRUE(done.next);
  EXPECT_EQ(done.next->job, "behind");
}

// Promise agents/jobs-kept: all agents keep ended jobs as long as the first one asked
TEST(RedisQueue, TheFirstAnswerHowLongJobsAreKeptHoldsForAllAgents) {
  const auto settings = fresh_settings();
  RedisBackend backend(shared_server().url(), settings);
  auto hasty_settings = settings;
  hasty_settings.keep_finished = Milliseconds(1000);
  RedisClient client(shared_server().url());
  RedisQueue hasty(client, hasty_settings, scripts_by_test_clock());
  const Retention first{settings.keep_finished, 7}, other{Milliseconds(1000), 0};
  EXPECT_EQ(backend.queue().agree_to_keep(first, false), first);
  EXPECT_EQ(hasty.agree_to_keep(other, false), first);
  backend.queue().submit(job_named("j"));
  backend.queue().finish(backend.queue().claim(claim_request("t")).value(), {}, 0);
  hasty.reap();
  backend.advance(5000);
  EXPECT_EQ(hasty.reap().expired, 0);
  EXPECT_EQ(QueueReader(client, settings).statistics().keep_finished_ms, settings.keep_finished.count());
  EXPECT_EQ(QueueReader(client, settings).statistics().keep_jobs, 7);
  EXPECT_EQ(hasty.agree_to_keep({.time = Milliseconds(2000)}, true), (Retention{Milliseconds(2000), 7}));
  EXPECT_EQ(backend.queue().reap().expired, 1);
}

TEST(RedisQueue, HasOneIdentityForEver) {
  const auto settings = fresh_settings();
  RedisBackend backend(shared_server().url(), settings);
  RedisClient client(shared_server().url());
  RedisQueue queue(client, settings, scripts_by_test_clock()), other(client, fresh_settings(), scripts_by_test_clock());
  EXPECT_EQ(QueueReader(client, settings).identity(), "");
  EXPECT_EQ(queue.identity("first"), "first");
  EXPECT_EQ(queue.identity("second"), "first");
  EXPECT_EQ(other.identity("third"), "third");
  EXPECT_EQ(QueueReader(client, settings).identity(), "first");
  const Retention kept{settings.keep_finished, 7};
  EXPECT_EQ(queue.agree_to_keep(kept, false), kept) << "an identity says nothing about it";
}

TEST(RedisQueue, KeysOfAnotherTypeAreAnError) {
  RedisBackend backend(shared_server().url(), fresh_settings());
  backend.client().call({"SET", backend.key("job:j"), "text"});
  EXPECT_THROW(backend.queue().find("j"), RedisRefused);
  backend.client().call({"DEL", backend.key("job:j")});
  backend.queue().submit(job_named("j"));
  backend.client().call({"HSET", backend.key("settings"), "alive_ms", "0"});
  backend.client().call({"DEL", backend.key("shapes")});
  backend.client().call({"SET", backend.key("shapes"), "text"});
  EXPECT_THAT(testing::message_of<RedisRefused>([&] { backend.queue().claim(claim_request("t")); }),
              HasSubstr("WRONGTYPE"));
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
  EXPECT_MESSAGE(message("step", "many"), "job j");
  EXPECT_THAT(message("loss", "1e"), HasSubstr("field loss"));
  EXPECT_THAT(message("parameters", "[1]"), HasSubstr("field parameters"));
  EXPECT_THAT(message("settings", std::string(Limits::kSettings + 1, 'x')), HasSubstr("field settings"));
  EXPECT_THAT(message("state", "lost"), HasSubstr("job state 'lost'"));
}

// Promise redis/killed: what was acknowledged survives a killed Redis
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
  EXPECT_EQ(queue.claim(claim_request("t"))->job, "j0");
}

}  // namespace
}  // namespace foretime::jobs
