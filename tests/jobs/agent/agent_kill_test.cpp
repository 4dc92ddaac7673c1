// Agents that die, over a real Redis.
#include <csignal>

#include <gmock/gmock.h>
#include <spdlog/sinks/null_sink.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/queue/redis_queue.h"
#include "tests/jobs/agent/agent_fixture.h"
#include "tests/support/redis_server.h"

namespace foretime::jobs {
namespace {

using testing::eventually;
using ::testing::HasSubstr;

/// A queue with a connection of its own.
struct OwnQueue {
  explicit OwnQueue(const RedisUrl& url) : client(url), queue(client, {}) {}
  RedisClient client;
  RedisQueue queue;
};

const testing::Faults kNone;

struct OwnForwardingQueue : OwnQueue, testing::ForwardingQueue {
  explicit OwnForwardingQueue(const RedisUrl& url) : OwnQueue(url), ForwardingQueue(OwnQueue::queue, kNone) {}
};

class AgentKillTest : public testing::AgentTest {
 protected:
  AgentKillTest() {
    options_.name.clear();
    options_.lease_term = Milliseconds(1500);
  }
  QueueFactory factory() {
    return [url = redis_.url()] { return std::make_unique<OwnForwardingQueue>(url); };
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
  testing::RedisServer redis_;
};

TEST_F(AgentKillTest, AKilledAgentLeavesNoProcessAndTheNextOneContinues) {
  OwnQueue own(redis_.url());
  const auto mark = fmt::format("ft-agent-{}", getpid());
  const auto spec = trial("long", "resume\nconnect\ndaemon " + mark + "\nsteps 200 10 10\nresult 1\n");
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
