#include <atomic>
#include <csignal>
#include <memory>
#include <utility>

#include <gmock/gmock.h>

#include "tests/jobs/agent/agent_fixture.h"

/// How jobs are ended: those that hang, are cancelled or stopped, lost their lease, or whose agent drains.
namespace foretime::jobs {
namespace {

using testing::eventually;
using ::testing::HasSubstr;
using testing::processes_with;
using AgentTest = testing::AgentTest;

TEST_F(AgentTest, AHungJobIsKilledAndTriedAgain) {
  options_.stall_seconds = 8;  // far longer than a busy machine holds up a process
  options_.cpus = 4;
  const auto id = submit("hung", "deaf\nconnect\nprogress 1 10\nonce mark hang\nresult 1\n");
  const auto silent = submit("silent", "deaf\nonce mark hang\n");
  // Each of their signs of life comes in time, and all together take longer than the limit.
  std::string lines, scores = "connect\n";
  for (int i = 1; i <= 10; ++i) {
    lines += "print line\nsleep 1000\n";
    scores += fmt::format("scored {}\nsleep 1000\n", i);
  }
  const auto chatty = submit("chatty", lines);
  const auto evaluating = submit("evaluating", scores + "result 1\n");
  run_all();
  EXPECT_EQ(job(evaluating).failures, 0) << "a long evaluation is no hang while it scores candidates";
  for (const auto& one : {id, silent}) {
    EXPECT_EQ(job(one).state, JobState::succeeded);
    EXPECT_EQ(job(one).failures, 1);
    EXPECT_THAT(log_of(one), HasSubstr("no progress for"));
  }
  EXPECT_EQ(job(chatty).failures, 0) << "lines are signs of life until progress is";
}

TEST_F(AgentTest, AMachineThatStoodStillHasNoJobsThatHang) {
  struct StandingStill final : testing::FastWorld {
    StandingStill() : FastWorld(1) {}
    double steady_seconds() override { return FastWorld::steady_seconds() + stood; }
    std::atomic<double> stood{0};
  } world;
  world_ = &world;
  options_.stall_seconds = 20;
  const auto id = submit("frozen", "connect\nprogress 1 10\nsleep 600\nprogress 2 10\nresult 1\n");
  std::string lines;
  for (int i = 0; i < 12; ++i) lines += "print line\nsleep 100\n";
  submit("wakes the agent", lines);
  const auto agent = start_agent();
  ASSERT_TRUE(reaches(id, [](const JobRecord& record) { return record.step == 1; }));
  world.stood = 100;
  agent->join();
  EXPECT_EQ(job(id).state, JobState::succeeded);
  EXPECT_EQ(job(id).failures, 0) << log_of(id);
}

/// Its first command outlives SIGKILL, as a process does that waits for storage which hangs.
class UnkillableWorld final : public testing::FastWorld {
 public:
  UnkillableWorld() : FastWorld(1) {}
  std::unique_ptr<RunningCommand> start(SupervisedProcess::Options command,
                                        const std::filesystem::path& folder) override {
    struct Unkillable final : RunningCommand {
      Unkillable(std::unique_ptr<RunningCommand> real, const std::atomic<bool>& hangs)
          : real_(std::move(real)), hangs_(hangs) {}
      void add_descriptors(std::vector<pollfd>& descriptors) const override { real_->add_descriptors(descriptors); }
      std::optional<ExitStatus> poll_exit() override { return hangs_ ? std::nullopt : real_->poll_exit(); }
      void read_output(bool all, const Sink& output, const Sink& evaluation_stdout) override {
        real_->read_output(all, output, evaluation_stdout);
      }
      void receive(const std::function<void(const ProgressMessage&)>& message,
                   const std::function<void(const std::string&)>& bad) override {
        real_->receive(message, bad);
      }
      bool connected() const override { return real_->connected(); }
      void request_stop(const std::string& reason) override { real_->request_stop(reason); }
      void terminate() override { real_->terminate(); }
      void kill() override { real_->kill(); }
      std::unique_ptr<RunningCommand> real_;
      const std::atomic<bool>& hangs_;
    };
    auto real = FastWorld::start(std::move(command), folder);
    if (std::exchange(first_, false)) return std::make_unique<Unkillable>(std::move(real), hangs);
    return real;
  }
  std::atomic<bool> hangs{true};

 private:
  bool first_ = true;
};

TEST_F(AgentTest, AHungJobThatCannotBeKilledIsLeftToOthers) {
  UnkillableWorld world;
  world_ = &world;
  options_.stall_seconds = 8;
  options_.lease_term = Milliseconds(3000);
  const auto id = submit("stuck", "connect\nprogress 1 10\nonce mark hang\nresult 1\n");
  const auto agent = start_agent();
  EXPECT_TRUE(reaches(id, [](const JobRecord& record) { return record.state == JobState::succeeded; }));
  EXPECT_EQ(job(id).fence, 2);
  EXPECT_THAT(agent->log(), HasSubstr("did not exit after SIGKILL; its lease will expire"));
  world.hangs = false;
  EXPECT_EQ(agent->join(), 1);
  EXPECT_EQ(job(id).results, 1);
}

TEST_F(AgentTest, ACancelledJobThatCannotBeKilledIsCancelled) {
  UnkillableWorld world;
  world_ = &world;
  options_.stop_grace_seconds = 0.1;
  options_.lease_term = Milliseconds(600);
  const auto id = submit("stuck", "connect\nprogress 1 10\nhang\n");
  const auto agent = start_agent();
  ASSERT_TRUE(reaches(id, [](const JobRecord& record) { return record.step == 1; }));
  queue_.cancel(id);
  EXPECT_TRUE(reaches(id, [](const JobRecord& record) { return record.state == JobState::cancelled; }));
  world.hangs = false;
  agent->join();
}

TEST_F(AgentTest, ACancelledJobStopsAtAStepBoundaryWithItsCheckpoint) {
  const auto id = submit("cancelled", "connect\nsteps 100000 5 5\n");
  options_.lease_term = Milliseconds(600);
  const auto agent = start_agent();
  ASSERT_TRUE(reaches(id, [](const JobRecord& record) { return record.step > 10; }));
  EXPECT_EQ(queue_.cancel(id), CancelOutcome::requested);
  EXPECT_EQ(agent->join(), 1);
  EXPECT_EQ(job(id).state, JobState::cancelled);
  EXPECT_EQ(job(id).results, 0);
  EXPECT_TRUE(std::filesystem::exists(runs_ / job(id).checkpoint / "manifest.json"));
  EXPECT_THAT(log_of(id), HasSubstr("cancelled by request"));
}

TEST_F(AgentTest, AJobThatDoesNotListenIsCancelledByForce) {
  options_.lease_term = Milliseconds(300);
  options_.stop_grace_seconds = 0.2;
  const auto mark = fmt::format("ft-deaf-{}", getpid());
  const auto id = submit("deaf", "deaf\nconnect\ndaemon " + mark + "\nprogress 1 2\nhang\n");
  const auto agent = start_agent();
  ASSERT_TRUE(eventually([&] { return job(id).step == 1 && !testing::session_leaders_with(mark).empty(); }));
  queue_.cancel(id);
  agent->join();
  EXPECT_EQ(job(id).state, JobState::cancelled);
  EXPECT_TRUE(processes_with(mark).empty());
}

TEST_F(AgentTest, ATrialStoppedByHalvingSucceedsAndKeepsItsCheckpoint) {
  SweepSpec sweep{.id = "0123456789abcdef", .metric = "valid/kendall_tau"};
  sweep.halving.rungs = {2};
  sweep.halving.eta = 2;
  queue_.create_sweep(sweep);
  auto best = trial("best", "connect\nevaluate 1 1 1\nevaluate 2 2 100000\nevaluate 3 3 7\nresult 7\n");
  auto worse = trial("worse", "connect\nsteps 100000 5 5\n");
  for (auto* spec : {&best, &worse}) spec->sweep = sweep.id;
  best.priority = 1;
  options_.max_jobs = 1;  // one after the other
  submit(best);
  submit(worse);
  EXPECT_EQ(run_all(), 2);
  EXPECT_EQ(job(best.id).state, JobState::succeeded);
  EXPECT_FALSE(job(best.id).stopped);
  const auto stopped = job(worse.id);
  EXPECT_EQ(stopped.state, JobState::succeeded);
  EXPECT_TRUE(stopped.stopped);
  EXPECT_EQ(stopped.results, 1);
  EXPECT_GE(stopped.objective.value_or(0), 10);
  EXPECT_TRUE(std::filesystem::exists(runs_ / stopped.checkpoint / "manifest.json"));
}

TEST_F(AgentTest, AJobWhoseLeaseIsLostIsKilledAndWritesNothing) {
  options_.lease_term = Milliseconds(300);
  const auto mark = fmt::format("ft-lost-{}", getpid());
  const auto id = submit("lost", "connect\ndaemon " + mark + "\nsteps 100000 1000 5\n");
  const auto agent = start_agent();
  ASSERT_TRUE(eventually([&] { return job(id).step > 2 && !testing::session_leaders_with(mark).empty(); }));
  // Somebody else gets the job: the lease runs out at once and is claimed before this agent sees it.
  std::optional<Lease> other;
  ASSERT_TRUE(eventually([&] {
    queue_.advance(Milliseconds(100000));
    queue_.reap();
    other = queue_.claim({"other", "othertoken", 2, 0, Milliseconds(100000000)});
    return other.has_value();
  }));
  ASSERT_TRUE(testing::nothing_left(mark));
  const auto step = job(id).step;
  JobResult result;
  result.metrics["m"] = 1;
  EXPECT_TRUE(queue_.finish(*other, result, 0));
  agent->join();
  EXPECT_EQ(job(id).state, JobState::succeeded);
  EXPECT_EQ(job(id).step, step);
  EXPECT_EQ(job(id).results, 1);
  EXPECT_EQ(job(id).agent, "other");
  EXPECT_EQ(agent->log().find("(exit code"), std::string::npos)
      << "an end that the queue does not know is not reported";
}

TEST_F(AgentTest, DrainingLetsJobsCheckpointAndGivesThemBack) {
  options_.until_empty = false;
  const auto id = submit("drained", "connect\nsteps 100000 1000 5\n");
  const auto other = submit("other", "deaf\nconnect\nhang\n");
  const auto third = submit("third", "exit 0\n");
  auto agent = start_agent();
  ASSERT_TRUE(eventually([&] { return job(id).step > 2 && job(other).state == JobState::active; }));
  agent->stop();
  ASSERT_TRUE(reaches(id, [](const JobRecord& record) { return record.state == JobState::waiting; }));
  EXPECT_FALSE(job(id).checkpoint.empty());
  EXPECT_EQ(job(id).failures, 0);
  EXPECT_EQ(job(third).state, JobState::waiting) << "nothing more is claimed";
  agent->stop();  // the second request kills the one that does not listen
  EXPECT_EQ(agent->join(), 0);
  EXPECT_EQ(job(other).state, JobState::waiting);
  EXPECT_EQ(job(other).failures, 0);
}

TEST_F(AgentTest, AJobWhoseLauncherIsEndedBesideADrainingAgentHasNotFailed) {
  options_.until_empty = false;
  options_.launcher = Launcher("sh -c '\"$@\" || exit 1' sh {command}");  // as mpirun ends after a SIGTERM of its own
  const auto id = submit("launched", "connect\nsteps 100000 1000 5\n");
  auto agent = start_agent();
  ASSERT_TRUE(reaches(id, [](const JobRecord& record) { return record.step > 2; }));
  agent->stop();
  agent->join();
  EXPECT_EQ(job(id).state, JobState::waiting);
  EXPECT_EQ(job(id).failures, 0);
  EXPECT_FALSE(job(id).checkpoint.empty());
}

}  // namespace
}  // namespace foretime::jobs
