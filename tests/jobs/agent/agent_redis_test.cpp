#include <csignal>
#include <functional>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <spdlog/sinks/null_sink.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/agent/agent.h"
#include "jobs/queue/redis_queue.h"
#include "tests/jobs/agent/agent_fixture.h"
#include "tests/support/redis_server.h"

/// Agents over a real Redis: what it refuses for a while, what it tells, and agents that die.
namespace foretime::jobs {
namespace {

using testing::eventually;
using ::testing::HasSubstr;
using ::testing::Not;

/// A queue with a connection of its own.
struct OwnQueue {
  explicit OwnQueue(const RedisUrl& url) : client(url), queue(client, {}) {}
  RedisClient client;
  RedisQueue queue;
};

class AgentKillTest : public testing::AgentTest {
 protected:
  RedisUrl url() const {
    auto url = redis_.url();
    url.password_file = password_file_;
    return url;
  }
  AgentKillTest() {
    options_.name.clear();
    options_.lease_term = Milliseconds(5000);
  }
  QueueFactory factory() {
    return [url = url()] {
      const auto own = std::make_shared<OwnQueue>(url);
      return std::shared_ptr<JobQueue>(own, &own->queue);
    };
  }
  /// An agent in a process of its own.
  pid_t fork_agent() {
    const pid_t pid = fork();
    if (pid == 0) {
      spdlog::logger log("agent", std::make_shared<spdlog::sinks::null_sink_mt>());
      Agent agent(options_, factory(), {}, log);
      agent.run();
      _exit(0);
    }
    return pid;
  }
  /// Whether an agent does.
  static bool listens(RedisClient& client) {
    return integer_of(*client.call({"PUBLISH", "{foretime}:wake", "0"})) == 1;
  }
  testing::RedisServer redis_;
  std::string password_file_;
};

/// A Redis that an agent and its users lose and find again.
class AgentTroubleTest : public AgentKillTest {
 protected:
  /// Runs a job while `begin` and `end` change Redis around the middle of it. The agent says `said`; where that is
  /// empty, no call of it fails.
  void expect_to_pass(const std::function<void(RedisClient&)>& begin, const std::function<void(RedisClient&)>& end,
                      const std::string& said) {
    options_.lease_term = Milliseconds(60000);
    options_.until_empty = false;
    OwnQueue own(url()), operator_(url());
    operator_.client.call({"PING"});
    const auto goes_on = scratch_.path() / "goes_on";
    const auto running = trial("running", "connect\nprogress 1 3\nawait " + goes_on.string() +
                                              "\nprint evaluate\nevaluate 2 1 0.5\ncheckpoint 2\nresult 0.5\n");
    own.queue.submit(running);
    testing::RunningAgent agent(options_, factory());
    const auto state = [&](const std::string& id) { return own.queue.find(id).value().state; };
    ASSERT_TRUE(eventually([&] { return own.queue.find(running.id).value().step == 1; }));
    begin(operator_.client);
    if (said.empty()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2500));  // calls go on, and none fails
    } else {
      EXPECT_TRUE(eventually([&] { return agent.log().find(said) != std::string::npos; })) << agent.log();
    }
    std::ofstream(goes_on) << "\n";
    EXPECT_TRUE(eventually([&] {
      return testing::read_text(runs_ / running.id / "attempt-1" / "output.log").find("evaluate") !=
                 std::string::npos ||
             agent.log().find("succeeded after") != std::string::npos;
    }));
    end(operator_.client);
    const auto next = trial("next", "connect\nresult 1\n");
    own.client.disconnect();
    own.queue.submit(next);
    EXPECT_TRUE(eventually([&] { return state(running.id) == JobState::succeeded; })) << agent.log();
    EXPECT_TRUE(eventually([&] { return state(next.id) == JobState::succeeded; })) << agent.log();
    EXPECT_EQ(own.queue.find(running.id).value().fence, 1) << "tried again";
    agent.stop();
    agent.join();
    EXPECT_EQ(agent.error(), "");
    if (said.empty()) {
      EXPECT_THAT(agent.log(), Not(HasSubstr("will retry")));
    }
  }
};

// Promise redis/trouble: running jobs survive a Redis that is read-only or full, or changes its password, settings or
// rights
TEST_F(AgentTroubleTest, ARedisThatIsAReplicaForAWhilePasses) {
  expect_to_pass(
      [](RedisClient& redis) {
        redis.call({"REPLICAOF", "127.0.0.1", "1"});
      },
      [](RedisClient& redis) {
        redis.call({"REPLICAOF", "NO", "ONE"});
      },
      "READONLY");
}

// Promise redis/trouble
TEST_F(AgentTroubleTest, ARedisThatIsFullForAWhilePasses) {
  expect_to_pass(
      [](RedisClient& redis) {
        redis.call({"CONFIG", "SET", "maxmemory", "1"});
        EXPECT_THROW(redis.call({"SET", "key", "value"}), JobsError);
      },
      [](RedisClient& redis) {
        redis.call({"CONFIG", "SET", "maxmemory", "0"});
      },
      "");
}

TEST_F(AgentTroubleTest, APasswordThatChangesPassesWhereItStandsInAFile) {
  const auto file = scratch_.path() / "password";
  std::ofstream(file) << "old\n";
  const auto change = [&](RedisClient& redis, const std::string& password) {
    redis.call({"CONFIG", "SET", "requirepass", password});
    redis.call({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  };
  {
    OwnQueue before(redis_.url());
    before.client.call({"CONFIG", "SET", "requirepass", "old"});
  }
  password_file_ = file;
  expect_to_pass([&](RedisClient& redis) { change(redis, "new"); },
                 [&](RedisClient&) { std::ofstream(file) << "new\n"; }, "WRONGPASS");
}

TEST_F(AgentTroubleTest, ARightThatIsTakenAwayForAWhilePasses) {
  expect_to_pass(
      [](RedisClient& redis) {
        redis.call({"ACL", "SETUSER", "default", "-evalsha", "-eval"});
      },
      [](RedisClient& redis) {
        redis.call({"ACL", "SETUSER", "default", "+evalsha", "+eval"});
      },
      "NOPERM");
}

TEST_F(AgentTroubleTest, AnEvictionPolicyThatIsFoundOnReconnectingPasses) {
  expect_to_pass(
      [](RedisClient& redis) {
        redis.call({"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"});
        redis.call({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
      },
      [](RedisClient& redis) {
        redis.call({"CONFIG", "SET", "maxmemory-policy", "noeviction"});
      },
      "maxmemory-policy is allkeys-lru");
}

TEST_F(AgentTroubleTest, ARedisThatNeedsNoPasswordForAWhilePasses) {
  const auto change = [](RedisClient& redis, const std::string& password) {
    redis.call({"CONFIG", "SET", "requirepass", password});
    redis.call({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  };
  {
    OwnQueue before(redis_.url());
    before.client.call({"CONFIG", "SET", "requirepass", "only"});
  }
  password_file_ = scratch_.path() / "password";
  std::ofstream(password_file_) << "only\n";
  expect_to_pass([&](RedisClient& redis) { change(redis, ""); }, [&](RedisClient& redis) { change(redis, "only"); },
                 "refused AUTH: ERR AUTH");
}

/// An agent on a clock that goes 40 times as fast, with a job that runs and the identity of its queue.
class AgentStoreTest : public AgentKillTest {
 protected:
  AgentStoreTest() : own_(redis_.url()) {
    options_.name = "watcher";
    options_.until_empty = false;
    options_.lease_term = Milliseconds(400'000);
    options_.queue = own_.queue.identity("the-queue");
  }
  void start() {
    own_.queue.submit(trial("one", "connect\nresult 1\n"));
    agent_ = std::make_unique<testing::RunningAgent>(options_, factory(), Proposer(), world_);
    ASSERT_TRUE(eventually([&] { return said("succeeded after"); })) << agent_->log();
  }
  bool said(const std::string& text) { return agent_->log().find(text) != std::string::npos; }
  /// The agent says why, in its log and in the queue, and claims nothing.
  void expect_trouble(const std::string& why) {
    EXPECT_TRUE(eventually([&] { return said("agent watcher: claims no jobs: " + why); })) << agent_->log();
    EXPECT_TRUE(eventually([&] {
      return text_of(*own_.client.call({"HGET", "{foretime}:agent:watcher", "trouble"})).find(why) == 0;
    }));
    next_ = trial("next", "connect\nresult 1\n");
    own_.queue.submit(next_);
    // It is asked about the store several times meanwhile, and about a claim at least as often.
    const auto calls = script_calls();
    ASSERT_TRUE(eventually([&] { return script_calls() > calls + 20; }));
    EXPECT_EQ(own_.queue.find(next_.id).value().state, JobState::waiting);
  }
  int64_t script_calls() {
    return std::stoll(info_field(text_of(*own_.client.call({"INFO", "commandstats"})), "cmdstat_evalsha").substr(6));
  }
  void expect_claims() {
    EXPECT_TRUE(eventually([&] { return own_.queue.find(next_.id).value().state == JobState::succeeded; }))
        << agent_->log();
  }

  OwnQueue own_;
  testing::FastWorld world_{40};
  std::unique_ptr<testing::RunningAgent> agent_;
  JobSpec next_;
};

// Promise redis/evictions: agents notice within 30 s that Redis evicts keys or that their queue was replaced; they
// claim nothing and report why
TEST_F(AgentStoreTest, AnEvictionPolicyStopsClaimsUntilItIsChangedBack) {
  start();
  own_.client.call({"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"});
  expect_trouble("maxmemory-policy of Redis is allkeys-lru");
  own_.client.call({"CONFIG", "SET", "maxmemory-policy", "noeviction"});
  expect_claims();
  EXPECT_TRUE(said("claims jobs again"));
}

// Promise redis/evictions
TEST_F(AgentStoreTest, EvictedKeysStopClaimsUntilTheAgentIsStartedAgain) {
  start();
  for (int i = 0; i < 200; ++i)
    own_.client.call({"SET", "filler" + std::to_string(i), std::string(10'000, 'x'), "EX", "999"});
  const auto used = std::stoll(info_field(text_of(*own_.client.call({"INFO", "memory"})), "used_memory"));
  own_.client.call({"CONFIG", "SET", "maxmemory-policy", "volatile-ttl"});
  own_.client.call({"CONFIG", "SET", "maxmemory", std::to_string(used - 500'000)});
  ASSERT_TRUE(eventually([&] {
    own_.client.call({"PING"});
    return info_field(text_of(*own_.client.call({"INFO", "stats"})), "evicted_keys") != "0";
  }));
  own_.client.call({"CONFIG", "SET", "maxmemory", "0"});
  own_.client.call({"CONFIG", "SET", "maxmemory-policy", "noeviction"});
  expect_trouble("Redis has evicted ");
  agent_.reset();
  agent_ = std::make_unique<testing::RunningAgent>(options_, factory(), Proposer(), world_);
  expect_claims();
}

TEST_F(AgentStoreTest, AnEmptiedQueueAndAnotherOneStopClaims) {
  start();
  const auto dump = text_of(*own_.client.call({"DUMP", "{foretime}:settings"}));
  own_.client.call({"FLUSHALL"});
  expect_trouble("the queue was emptied (by FLUSHALL, for example): its identity the-queue is gone");
  EXPECT_EQ(own_.queue.identity("another"), "another");
  EXPECT_TRUE(eventually([&] { return said("Redis now holds another queue, of identity another"); })) << agent_->log();
  own_.client.call({"RESTORE", "{foretime}:settings", "0", dump, "REPLACE"});
  expect_claims();
}

TEST_F(AgentStoreTest, AnAgentUntilEmptyTakesNoEmptiedQueueForOneThatIsDone) {
  options_.until_empty = true;
  own_.queue.submit(trial("one", "connect\nprogress 1 3\nsleep 600000\nresult 1\n"));
  own_.queue.submit(trial("two", "connect\nresult 1\n"));
  options_.lease_term = Milliseconds(20'000);
  agent_ = std::make_unique<testing::RunningAgent>(options_, factory(), Proposer(), world_);
  ASSERT_TRUE(eventually([&] { return said("succeeded after"); })) << agent_->log();
  own_.client.call({"FLUSHALL"});
  EXPECT_THAT(agent_->error(), HasSubstr("agent watcher: the queue was emptied"));
}

// Promise redis/refuses-agent: an agent that Redis refuses ends soon after SIGTERM
TEST_F(AgentKillTest, AnAgentWhosePasswordIsWrongEndsSoonAfterItIsAskedTo) {
  options_.until_empty = false;
  options_.drain_seconds = 100'000;
  options_.lease_term = Milliseconds(400'000);
  OwnQueue own(url()), operator_(url());
  operator_.client.call({"PING"});
  const auto running = trial("running", "connect\nprogress 1 3\nsleep 600000\nresult 0.5\n");
  own.queue.submit(running);
  testing::FastWorld world(40);
  testing::RunningAgent agent(options_, factory(), Proposer(), world);
  ASSERT_TRUE(eventually([&] { return own.queue.find(running.id).value().step == 1; }));
  operator_.client.call({"CONFIG", "SET", "requirepass", "new"});
  operator_.client.call({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  ASSERT_TRUE(eventually([&] { return agent.log().find("NOAUTH") != std::string::npos; })) << agent.log();
  agent.stop();
  agent.join();
  EXPECT_THAT(agent.log(), HasSubstr("Redis is unreachable or refuses this agent, so 1 results were not written"));
}

TEST_F(AgentKillTest, AnAgentThatMayNotListenIsToldOnceItMay) {
  options_.until_empty = false;
  OwnQueue own(redis_.url());
  own.client.call({"ACL", "SETUSER", "default", "-subscribe"});
  testing::FastWorld world(40);
  testing::RunningAgent agent(options_, factory(), {}, world);
  ASSERT_TRUE(eventually([&] { return agent.log().find("because it may not subscribe") != std::string::npos; }));
  own.client.call({"ACL", "SETUSER", "default", "+subscribe"});
  EXPECT_TRUE(eventually([&] { return listens(own.client); }));
}

// An agent that is not told asks every 15 s, which is 25 minutes by this clock: longer than any test waits.
constexpr double kSlow = 0.01;

TEST_F(AgentKillTest, AJobBehindAPausedSweepStartsSoon) {
  options_.until_empty = false;
  OwnQueue own(redis_.url());
  options_.lease_term = std::chrono::hours(1);
  testing::FastWorld world(kSlow);
  testing::RunningAgent agent(options_, factory(), {}, world);
  ASSERT_TRUE(eventually([&] { return listens(own.client); }));
  own.queue.create_sweep({.id = "s", .name = "sweep", .method = "grid"});
  own.queue.pause("s");
  std::vector<JobSpec> specs(4000, trial("of a sweep", ""));
  for (int i = 0; i < 4000; ++i) {
    auto& spec = specs[static_cast<size_t>(i)];
    spec.id = fmt::format("s-{}", i);
    spec.sweep = "s";
    spec.trial = i;
  }
  specs.push_back(trial("behind", "connect\nresult 1\n"));
  own.queue.submit_all(specs);
  EXPECT_TRUE(eventually([&] { return own.queue.find(specs.back().id).value().state == JobState::succeeded; }));
}

TEST_F(AgentKillTest, AnIdleAgentIsToldWhenAJobComes) {
  options_.until_empty = false;
  OwnQueue own(redis_.url());
  options_.lease_term = std::chrono::hours(1);
  testing::FastWorld world(kSlow);
  testing::RunningAgent agent(options_, factory(), {}, world);
  ASSERT_TRUE(eventually([&] { return listens(own.client); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const auto spec = trial("short", "connect\nresult 1\n");
  own.queue.submit(spec);
  EXPECT_TRUE(eventually([&] { return own.queue.find(spec.id).value().state == JobState::succeeded; }));
}

TEST_F(AgentKillTest, AKilledAgentLeavesNoProcessAndTheNextOneContinues) {
  OwnQueue own(redis_.url());
  const auto mark = fmt::format("ft-agent-{}", getpid());
  const auto spec = trial("long", "resume\nconnect\ndaemon " + mark + "\nonce begun steps 100000 10 10\nresult 1\n");
  own.queue.submit(spec);
  const pid_t agent = fork_agent();
  ASSERT_TRUE(eventually([&] {
    const auto record = own.queue.find(spec.id).value();
    return !record.checkpoint.empty() && !testing::session_leaders_with(mark).empty();
  }));
  kill(agent, SIGKILL);
  waitpid(agent, nullptr, 0);
  EXPECT_TRUE(testing::nothing_left(mark)) << "a daemon of the trial";
  EXPECT_TRUE(testing::nothing_left(spec.id)) << "the trial";

  const auto before = own.queue.find(spec.id).value();
  EXPECT_EQ(before.state, JobState::active);
  ASSERT_FALSE(before.checkpoint.empty());
  testing::RunningAgent next(options_, factory());
  EXPECT_EQ(next.join(), 1) << next.error();
  const auto after = own.queue.find(spec.id).value();
  EXPECT_EQ(after.state, JobState::succeeded);
  EXPECT_EQ(after.fence, 2);
  EXPECT_EQ(after.results, 1);
  EXPECT_THAT(testing::read_text(runs_ / spec.id / "attempt-2" / "output.log"),
              HasSubstr("resume " + (std::filesystem::canonical(runs_) / before.checkpoint).string()));
}

}  // namespace
}  // namespace foretime::jobs
