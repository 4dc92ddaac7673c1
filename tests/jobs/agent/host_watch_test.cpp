#include "jobs/agent/host_watch.h"

#include <atomic>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <spdlog/sinks/ostream_sink.h>

#include "base/process.h"
#include "jobs/error.h"
#include "tests/jobs/agent/agent_fixture.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/processes.h"

namespace foretime::jobs {
namespace {

using ::testing::HasSubstr;
using Names = std::set<std::string>;

TEST(Hosts, AreNamesWithCpus) {
  EXPECT_EQ(parse_hosts("h1:4,h2,10.0.0.3:16"), (std::vector<AgentHost>{{"h1", 4}, {"h2", 1}, {"10.0.0.3", 16}}));
  for (const auto* text :
       {"", "h1,", ",h1", "h1:", "h1:0", "h1:-1", "h1:x", "h1:4x", "h1:99999999", "h1 h2", "-o:1", "a{b"})
    EXPECT_MESSAGE(testing::message_of<JobsError>([&] { parse_hosts(text); }), "--hosts: found") << text;
  EXPECT_THAT(testing::message_of<JobsError>([&] { parse_hosts("h1:4,h2:1,h1:2"); }), HasSubstr("found h1 twice"));
}

TEST(Hosts, ACommandTellsWhichAnswer) {
  const std::vector<std::string> hosts = {"0", "1", "7"};
  EXPECT_EQ(command_probe("sh -c 'exit {host}'", 1000)(hosts), (Names{"1", "7"}));
  EXPECT_EQ(command_probe("/no/such/program {host}", 1000)(hosts), (Names{"0", "1", "7"}));
  EXPECT_EQ(command_probe("sh -c '[ {host} = 0 ] || sleep 100000'", 10)(hosts), (Names{"1", "7"})) << "all at once";
  for (const auto* text : {"ping", "{host}", ""})
    EXPECT_THAT(testing::message_of<JobsError>([&] { command_probe(text, 1); }), HasSubstr("--host-check: found"));
}

class HostWatchTest : public ::testing::Test {
 protected:
  HostProbe probe() {
    return [this](const std::vector<std::string>& hosts) {
      ++looks_;
      asked_ = hosts.size();
      return silent_.load() ? Names{"h2"} : Names{};
    };
  }
  std::atomic<bool> silent_{false};
  std::atomic<int> looks_{0}, wakes_{0};
  std::atomic<size_t> asked_{0};
  std::ostringstream text_;
  spdlog::logger log_{"hosts", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_)};
};

TEST_F(HostWatchTest, TellsWhatIsNewAndLooksWhereSomebodyAsks) {
  HostWatch watch(
      {{"h1", 1}, {"h2", 1}, {host_name(), 1}}, probe(), [this] { ++wakes_; }, real_world(), log_);
  std::optional<Names> changed_silent_hosts;
  ASSERT_TRUE(
      foretime::testing::eventually([&] { return (changed_silent_hosts = watch.changed_silent_hosts()).has_value(); }));
  EXPECT_EQ(*changed_silent_hosts, Names());
  EXPECT_EQ(asked_, 2U) << "the agent's own host answers";
  silent_ = true;
  const double since = real_world().steady_seconds();
  std::optional<Names> found;
  ASSERT_TRUE(foretime::testing::eventually([&] { return (found = watch.silent_since(since)).has_value(); }));
  EXPECT_EQ(*found, Names{"h2"});
  EXPECT_EQ(watch.changed_silent_hosts(), Names{"h2"});
  EXPECT_FALSE(watch.changed_silent_hosts());
  EXPECT_GE(wakes_, 2);
  EXPECT_THAT(text_.str(), HasSubstr("host h2 does not answer"));
  const int before = looks_;
  EXPECT_EQ(watch.silent_since(since), Names{"h2"});
  EXPECT_EQ(looks_, before) << "what was seen since then is not asked again";
}

}  // namespace
}  // namespace foretime::jobs

namespace foretime::testing {
namespace {

using ::testing::HasSubstr;

/// Of a training that is dead after one failure of its own.
// Promise lost-hosts/silent: a failed job whose host is silent has not failed; the slots of a silent host are not free
TEST_F(AgentTest, AJobWhoseHostIsLostHasNotFailedAndGoesOnOnWhatIsLeft) {
  std::atomic<bool> lost{false};
  options_.hosts = {{"h1", 2}, {"h2", 2}};
  options_.host_probe = [&](const auto&) { return lost ? std::set<std::string>{"h2"} : std::set<std::string>{}; };
  options_.launcher = jobs::Launcher("sh -c 'echo ranks {ranks} on {hosts}; exec \"$@\"' sh {command}", false, true);
  auto spec = trial("elastic", "connect\nsteps 100000 5 5\n");
  spec.resources = {.ranks = 2, .cpus = 1, .most_ranks = 8};
  spec.max_attempts = 1;
  submit(spec);
  const auto agent = start_agent();
  const auto trains = [&](int64_t fence) {
    return reaches(spec.id, [&](const jobs::JobRecord& job) { return job.fence == fence && job.step > 5; });
  };
  ASSERT_TRUE(trains(1));
  EXPECT_EQ(job(spec.id).attempt_ranks, 4);
  lost = true;
  for (const auto process : processes_with(spec.id)) kill(process, SIGKILL);
  ASSERT_TRUE(reaches(spec.id, [](const jobs::JobRecord& job) { return job.fence == 2 && job.attempt_ranks == 2; }));
  EXPECT_MESSAGE(testing::first_line(job(spec.id).error));
  EXPECT_EQ(job(spec.id).failures, 0);
  EXPECT_EQ(job(spec.id).preemptions, 1);
  EXPECT_TRUE(eventually([&] { return log_of(spec.id).find("ranks 2 on h1:2\n") != std::string::npos; }));
  // The host is back, and the job is ended by something else: that is its own failure.
  lost = false;
  // Again and again, since one may start another while they are looked for.
  ASSERT_TRUE(reaches(spec.id, [&](const jobs::JobRecord& job) {
    for (const auto process : processes_with(spec.id)) kill(process, SIGKILL);
    return job.state == jobs::JobState::dead;
  }));
  EXPECT_EQ(job(spec.id).failures, 1);
  agent->join();
  EXPECT_THAT(log_of(spec.id), HasSubstr("ranks 4 on h1:2,h2:2\n"));
  EXPECT_THAT(agent->log(), HasSubstr("host h2 does not answer"));
}

TEST_F(AgentTest, AnAgentNoneOfWhoseHostsAnswersSaysSo) {
  std::atomic<bool> lost{true};
  options_.hosts = {{"h1", 2}, {"h2", 2}};
  options_.host_probe = [&](const auto& hosts) {
    return lost ? std::set<std::string>(hosts.begin(), hosts.end()) : std::set<std::string>{};
  };
  options_.launcher = jobs::Launcher("sh -c 'exec \"$@\"' {hosts} {command}", false, true);
  options_.lease_term = jobs::Milliseconds(300);
  submit("waits", "exit 0\n");
  const auto agent = start_agent();
  EXPECT_TRUE(eventually([&] {
    const auto all = queue_.dump();
    const auto found = all.find("agent:tester");
    return found != all.end() && found->second.contains("trouble") &&
           found->second.at("trouble") == "none of the agent's hosts answers";
  }));
  agent->stop();
  agent->join();
}

}  // namespace
}  // namespace foretime::testing
