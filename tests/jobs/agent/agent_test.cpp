#include "jobs/agent/agent.h"

#include <csignal>

#include <gmock/gmock.h>
#include <spdlog/sinks/null_sink.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/queue/redis_queue.h"
#include "tests/jobs/agent/agent_fixture.h"
#include "tests/support/redis_server.h"

// Agents that die, over a real Redis.
namespace foretime::jobs {
namespace {

using ::testing::AllOf;
using testing::eventually;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::processes_with;
using testing::read_text;

using AgentTest = testing::AgentTest;

TEST_F(AgentTest, ATrialThatEndsWellLeavesItsResultLogAndCheckpoint) {
  const auto id = submit("good",
                         "print hello\nbytes\nconnect\nprogress 5 10\nevaluate 5 1 0.5\ncheckpoint 10\n"
                         "evaluate 10 2 0.75\nresult 0.7\n");
  EXPECT_EQ(run_all(), 1);
  const auto record = job(id);
  EXPECT_EQ(record.state, JobState::succeeded);
  EXPECT_EQ(record.results, 1);
  EXPECT_EQ(record.objective, 0.7);
  EXPECT_EQ(record.best_objective, 0.75);
  EXPECT_EQ(record.metrics.at("valid/kendall_tau"), 0.7);
  EXPECT_EQ(record.step, 10);
  EXPECT_EQ(record.total_steps, 10);
  EXPECT_GT(record.seconds, 0);
  EXPECT_EQ(record.checkpoint, id + "/attempt-1/checkpoints/step-10");
  EXPECT_THAT(log_of(id), HasSubstr(" hello\na\xEF\xBF\xBD"
                                    "b\nnext\n"));
  EXPECT_THAT(read_text(runs_ / id / "attempt-1" / "output.log"), HasSubstr(" hello\n"));
  const auto settings = configs::load_settings(runs_ / id / "attempt-1" / "config.yaml");
  EXPECT_EQ(settings.run.directory, (std::filesystem::canonical(runs_) / id / "attempt-1").string());
  EXPECT_EQ(settings.data.allowed_roots, std::vector<std::string>{std::filesystem::canonical(data_).string()});
  EXPECT_EQ(settings.trainer.threads, 1);
  EXPECT_FALSE(std::filesystem::exists(runs_ / id / "attempt-1" / "agent.sock"));
  EXPECT_EQ(queue_.dump().count("agents"), 0U) << "it said that it leaves";
}

TEST_F(AgentTest, ATrialWithoutAResultHasItsLastEvaluation) {
  const auto id = submit("plain", "connect\nevaluate 1 1 0.5\nevaluate 2 2 0.25\n");
  run_all();
  EXPECT_EQ(job(id).state, JobState::succeeded);
  EXPECT_EQ(job(id).objective, 0.25);
  EXPECT_EQ(job(id).best_objective, 0.5);
}

/// A training whose rank 0 runs where the agent's socket is not reached says nothing, and yet has its result.
TEST_F(AgentTest, ATrainingWhoseChannelWasNeverReachedHasTheResultThatItLeftOnDisk) {
  const auto id = submit("silent", "print trained\n");
  EXPECT_EQ(run_all(), 1);
  EXPECT_EQ(job(id).state, JobState::succeeded);
  EXPECT_EQ(job(id).objective, 1);
  EXPECT_EQ(job(id).metrics.at("valid/kendall_tau"), 1);
  EXPECT_EQ(job(id).step, 12);
  EXPECT_EQ(job(id).checkpoint, id + "/attempt-1/checkpoints/step-00000012");
}

TEST_F(AgentTest, NothingSucceedsWithoutAResult) {
  auto silent = trial("silent", "nothing\nprint trained\n");
  auto early = trial("early", "nothing\nconnect\nprogress 1 10\ncheckpoint 1\n");
  auto other = trial("other", "connect\nresult 1\n");
  other.metric = "test/opa";
  other.id = job_id(other);
  for (auto* spec : {&silent, &early, &other}) {
    spec->max_attempts = 2;
    submit(*spec);
  }
  run_all();
  for (const auto& id : {silent.id, early.id}) {
    EXPECT_EQ(job(id).state, JobState::dead);
    EXPECT_EQ(job(id).failures, 2);
    EXPECT_EQ(job(id).results, 0);
    EXPECT_THAT(job(id).error, AllOf(HasSubstr("its result is not there"), HasSubstr("metrics.jsonl")));
  }
  EXPECT_EQ(job(other.id).state, JobState::failed);
  EXPECT_THAT(job(other.id).error, AllOf(HasSubstr("test/opa is not among"), HasSubstr("valid/kendall_tau")));
}

/// Its socket is not there for it, but its metrics grow.
TEST_F(AgentTest, ATrainingWhoseChannelWasNeverReachedIsNotHungWhileItWritesMetrics) {
  options_.stall_seconds = 0.6;
  const auto id = submit("grows", "metrics 3 400\n");
  const auto hung = submit("hung", "deaf\nonce mark hang\n");
  run_all();
  EXPECT_EQ(job(id).failures, 0);
  EXPECT_EQ(job(hung).failures, 1);
}

TEST_F(AgentTest, ExitCodesDecideWhetherItIsTriedAgain) {
  const auto settings = submit("two", "print wrong setting\nexit 2\n");
  const auto data = submit("three", "exit 3\n");
  const auto crash = submit("crash", "print before\ncrash\n");
  const auto poison = submit("poison", "exit 7\n");
  const auto preempted = submit("preempted", "once mark exit 75\n");
  EXPECT_EQ(run_all(), 3) << "those that are dead end in the queue, by the last of their errors";
  EXPECT_EQ(job(settings).state, JobState::failed);
  EXPECT_EQ(job(settings).attempt, 1);
  EXPECT_THAT(job(settings).error, AllOf(HasSubstr("exit code 2"), HasSubstr("wrong setting")));
  EXPECT_EQ(job(data).state, JobState::failed);
  EXPECT_EQ(job(crash).state, JobState::dead);
  EXPECT_EQ(job(crash).attempt, 3);
  EXPECT_THAT(job(crash).error, AllOf(HasSubstr("killed by signal 11"), HasSubstr("before")));
  EXPECT_EQ(job(poison).state, JobState::dead);
  EXPECT_EQ(job(poison).results, 0);
  EXPECT_EQ(job(preempted).state, JobState::succeeded);
  EXPECT_EQ(job(preempted).attempt, 1) << "an attempt that was preempted does not count";
  EXPECT_EQ(job(preempted).fence, 2);
}

TEST_F(AgentTest, TheNextAttemptContinuesFromThePublishedCheckpoint) {
  const auto id = submit("flaky", "resume\nconnect\nonce mark checkpoint 40\nonce mark2 exit 1\nresult 1\n");
  run_all();
  EXPECT_EQ(job(id).state, JobState::succeeded);
  EXPECT_EQ(job(id).attempt, 2);
  EXPECT_THAT(log_of(id), AllOf(HasSubstr("resume auto"), HasSubstr("attempt-1/checkpoints/step-40")));
}

TEST_F(AgentTest, AHungJobIsKilledAndTriedAgain) {
  options_.stall_seconds = 1.0;
  const auto id = submit("hung", "deaf\nconnect\nprogress 1 10\nonce mark hang\nresult 1\n");
  const auto silent = submit("silent", "deaf\nonce mark hang\n");
  const auto chatty = submit("chatty", "print a\nsleep 400\nprint b\nsleep 400\nprint c\nsleep 400\nprint d\n");
  const auto evaluating =
      submit("evaluating",
             "connect\nscored 1\nsleep 600\nscored 2\nsleep 600\nscored 3\nsleep 600\nscored 4\nsleep 600\nresult 1\n");
  run_all();
  EXPECT_EQ(job(evaluating).failures, 0) << "a long evaluation is no hang while it scores candidates";
  for (const auto& one : {id, silent}) {
    EXPECT_EQ(job(one).state, JobState::succeeded);
    EXPECT_EQ(job(one).failures, 1);
    EXPECT_THAT(log_of(one), HasSubstr("no progress for"));
  }
  EXPECT_EQ(job(chatty).failures, 0) << "lines are signs of life until progress is";
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
      void read_output(bool all, const Sink& output, const Sink& printed) override {
        real_->read_output(all, output, printed);
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
  options_.stall_seconds = 0.5;
  options_.lease_term = Milliseconds(600);
  const auto id = submit("stuck", "connect\nprogress 1 10\nonce mark hang\nresult 1\n");
  const auto agent = start_agent();
  EXPECT_TRUE(reaches(id, [](const JobRecord& record) { return record.state == JobState::succeeded; }));
  EXPECT_EQ(job(id).fence, 2);
  EXPECT_THAT(agent->log(), HasSubstr("it does not end: its lease is left to run out"));
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

TEST_F(AgentTest, AnOutageOfRedisDoesNotDisturbARunningJob) {
  options_.lease_term = Milliseconds(60000);
  const auto id = submit(
      "outage", "connect\nprogress 1 3\nsleep 700\nprint meanwhile\nevaluate 2 1 0.5\ncheckpoint 2\nresult 0.5\n");
  const auto agent = start_agent();
  ASSERT_TRUE(reaches(id, [](const JobRecord& record) { return record.step == 1; }));
  faults_.away = true;
  ASSERT_TRUE(eventually(
      [&] { return read_text(runs_ / id / "attempt-1" / "output.log").find("meanwhile") != std::string::npos; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(job(id).state, JobState::active);
  faults_.away = false;
  EXPECT_EQ(agent->join(), 1);
  EXPECT_EQ(job(id).state, JobState::succeeded);
  EXPECT_EQ(job(id).fence, 1);
  EXPECT_EQ(job(id).objective, 0.5);
  EXPECT_THAT(log_of(id), HasSubstr("meanwhile"));
  const auto log = agent->log();
  EXPECT_THAT(log, AllOf(HasSubstr("connection refused"), HasSubstr("Redis is back")));
  const auto first = log.find("agent: redis at nowhere");
  EXPECT_EQ(log.find("agent: redis at nowhere", first + 1), std::string::npos) << "said once";
}

TEST_F(AgentTest, ASlotThatBecomesFreeTakesItsNextJobInTheCallThatWritesTheResult) {
  options_.cpus = 1;
  for (int i = 0; i < 6; ++i) submit(fmt::format("job{}", i), "connect\nresult 1\n");
  EXPECT_EQ(run_all(), 6);
  const auto events = queue_.events();
  // Between the end of one job and the claim of the next, nothing else happens.
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    if (events[i].event == "finish") {
      EXPECT_EQ(events[i + 1].event, "claim") << i;
    }
  }
  EXPECT_EQ(calls_.at("finish_and_claim"), 6);
  EXPECT_LE(calls_.at("claim") - calls_.at("finish_and_claim"), 2) << "one before the first job, one after the last";
}

TEST_F(AgentTest, AResultThatWasRefusedOnceWithAClaimComesWithOneAgainAMinuteLater) {
  testing::FastWorld world(20);
  world_ = &world;
  options_.cpus = 1;
  options_.until_empty = false;
  faults_.refuses_next = 1;
  const auto agent = start_agent();
  const auto ends = [this](const std::string& name) {
    const auto id = submit(name, "connect\nresult 1\n");
    return reaches(id, [](const JobRecord& record) { return record.state == JobState::succeeded; });
  };
  const auto calls = [this] {
    const std::lock_guard lock(calls_mutex_);
    return calls_["finish_and_claim"];
  };
  ASSERT_TRUE(ends("refused"));
  EXPECT_EQ(calls(), 1);
  ASSERT_TRUE(ends("at once"));
  EXPECT_EQ(calls(), 1) << "not tried at once";
  int jobs = 0;
  EXPECT_TRUE(eventually([&] { return ends(fmt::format("later {}", ++jobs)) && calls() > 1; }));
  agent->stop();
  EXPECT_EQ(agent->join(), jobs + 2);
}

TEST_F(AgentTest, ARedisThatRefusesTheFirstClaimEndsTheAgent) {
  faults_.refuses_claims = true;
  EXPECT_THAT(start_agent()->error(), HasSubstr("NOPERM"));
}

TEST_F(AgentTest, ARedisThatRefusesLaterClaimsDoesNotDisturbARunningJob) {
  const auto id = submit("running", "connect\nsteps 40 20 50\nresult 1\n");
  const auto agent = start_agent();
  ASSERT_TRUE(reaches(id, [](const JobRecord& record) { return record.step > 2; }));
  faults_.refuses_claims = true;
  ASSERT_TRUE(reaches(id, [](const JobRecord& record) { return record.state == JobState::succeeded; }));
  faults_.refuses_claims = false;
  EXPECT_EQ(agent->join(), 1);
  EXPECT_EQ(job(id).fence, 1);
}

TEST_F(AgentTest, OneRefusalDoesNotEndReaping) {
  testing::FastWorld world(60);
  world_ = &world;
  options_.until_empty = false;
  faults_.refuses_reaps = true;
  const auto agent = start_agent();
  ASSERT_TRUE(eventually([&] { return faults_.reaps >= 2; }));
  faults_.refuses_reaps = false;
  const int before = faults_.reaps;
  EXPECT_TRUE(eventually([&] { return faults_.reaps >= before + 3; }));
  agent->stop();
  agent->join();
  const auto log = agent->log();
  const auto first = log.find("lost leases are left to other agents meanwhile");
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(log.find("lost leases are left", first + 1), std::string::npos) << "said once";
}

TEST_F(AgentTest, AJobWhoseReportIsRefusedEndsAloneAndTheAgentGoesOn) {
  options_.until_empty = false;
  const auto id = submit("refused", "connect\nsteps 100000 1000 5\n");
  auto agent = start_agent();
  ASSERT_TRUE(reaches(id, [](const JobRecord& record) { return record.step > 2; }));
  faults_.refuses_reports = true;
  EXPECT_TRUE(testing::nothing_left(id));
  faults_.refuses_reports = false;
  const auto next = submit("next", "exit 0\n");
  EXPECT_TRUE(reaches(next, [](const JobRecord& record) { return record.state == JobState::succeeded; }));
  EXPECT_EQ(job(id).state, JobState::active) << "until its lease runs out";
  agent->stop();
  agent->join();
  EXPECT_THAT(agent->log(), HasSubstr("NOPERM"));
}

TEST_F(AgentTest, RanksUnderMpirunReportStopAndLeaveNothing) {
  if (std::system("command -v mpirun >/dev/null 2>&1") != 0) GTEST_SKIP() << "needs mpirun (openmpi-bin)";
  options_.lease_term = Milliseconds(600);
  // Whichever rank ends first makes mpirun end the other, and wait twice the time-out.
  options_.launcher = Launcher(
      "mpirun -n {ranks} --bind-to none --oversubscribe -x FORETIME_PROGRESS --mca odls_base_sigkill_timeout 1 "
      "{command}");
  auto spec = trial("ranks", "connect\nsteps 100000 5 5\n");
  spec.resources.ranks = 2;
  submit(spec);
  const auto agent = start_agent();
  ASSERT_TRUE(reaches(spec.id, [](const JobRecord& record) { return record.step > 5; }));
  EXPECT_EQ(processes_with(spec.id).size(), 3U) << "mpirun and two ranks";
  queue_.cancel(spec.id);
  EXPECT_EQ(agent->join(), 1);
  EXPECT_EQ(job(spec.id).state, JobState::cancelled);
  EXPECT_FALSE(job(spec.id).checkpoint.empty());
  EXPECT_TRUE(processes_with(spec.id).empty());
}

TEST_F(AgentTest, AnElasticJobIsStartedOnTheRanksThatAreFree) {
  options_.cpus = 5;
  options_.launcher = Launcher("sh -c 'echo ranks {ranks} cpus {cpus}; exec \"$@\"' sh {command}");
  auto one = trial("one", "connect\nsteps 100000 5 5\n");
  one.resources = {.ranks = 2, .cpus = 1};
  submit(one);
  const auto agent = start_agent();
  ASSERT_TRUE(reaches(one.id, [](const JobRecord& record) { return record.step > 1; }));
  auto elastic = trial("elastic", "connect\nsteps 100000 5 5\n");
  elastic.resources = {.ranks = 1, .cpus = 1, .most_ranks = 8};
  submit(elastic);
  auto last = trial("last", "exit 0\n");
  submit(last);
  ASSERT_TRUE(reaches(elastic.id, [](const JobRecord& record) { return record.step > 1; }));
  EXPECT_EQ(job(elastic.id).attempt_ranks, 3);
  EXPECT_EQ(job(last.id).state, JobState::waiting) << "all is taken";
  queue_.cancel(one.id);
  queue_.cancel(elastic.id);
  EXPECT_EQ(agent->join(), 3);
  EXPECT_THAT(log_of(elastic.id), HasSubstr("ranks 3 cpus 1"));
  EXPECT_THAT(log_of(one.id), HasSubstr("ranks 2 cpus 1"));
}

TEST_F(AgentTest, TheLogInTheQueueIsARingAndTheFileIsWhole) {
  const auto id = submit("chatter", "many 5000\n");
  run_all();
  const auto lines = queue_.log(id);
  EXPECT_LE(lines.size(), static_cast<size_t>(Limits::kLogLines));
  EXPECT_EQ(lines.back(), "line 4999");
  const auto file = read_text(runs_ / id / "attempt-1" / "output.log");
  EXPECT_THAT(file, AllOf(HasSubstr("line 0\n"), HasSubstr("line 2500\n"), HasSubstr("line 4999\n")));
}

TEST_F(AgentTest, MessagesAreJudgedAndNeverFatal) {
  const auto id =
      submit("rude", "raw {\"type\":\"dance\"}\nconnect\npublish /etc\npublish checkpoints/none\nresult 1\n");
  run_all();
  EXPECT_EQ(job(id).state, JobState::succeeded);
  EXPECT_TRUE(job(id).checkpoint.empty());
  EXPECT_THAT(log_of(id),
              AllOf(HasSubstr("found \"dance\""), HasSubstr("more than 65536 bytes"), HasSubstr("/etc: lies outside"),
                    HasSubstr("expected a whole checkpoint"), HasSubstr("4 messages were of no use")));
}

TEST_F(AgentTest, SlotsAreNeverGivenOutTwice) {
  options_.cpus = 4;
  options_.gpus = {"0", "1", "GPU-7"};
  std::vector<std::string> ids;
  for (int i = 0; i < 8; ++i) {
    auto spec =
        trial(fmt::format("gpu{}", i), fmt::format("env CUDA_VISIBLE_DEVICES\nenv OMP_NUM_THREADS\nsleep 60\n", i));
    spec.resources.gpus = i % 3;
    spec.resources.cpus = 1 + i % 2;
    ids.push_back(submit(spec));
  }
  std::atomic<bool> over{false};
  std::thread watch([&] {
    while (!over) {
      int64_t cpus = 0, gpus = 0;
      for (const auto& id : ids) {
        const auto record = job(id);
        if (record.state != JobState::active) continue;
        cpus += record.spec.resources.total_cpus();
        gpus += record.spec.resources.total_gpus();
      }
      EXPECT_LE(cpus, 4 + 1) << "records are read one after the other";
      EXPECT_LE(gpus, 3 + 2);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  EXPECT_EQ(run_all(), 8);
  over = true;
  watch.join();
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto log = log_of(ids[i]);
    EXPECT_THAT(log, HasSubstr(fmt::format("OMP_NUM_THREADS={}", 1 + i % 2)));
    EXPECT_THAT(log, i % 3 == 0 ? HasSubstr("CUDA_VISIBLE_DEVICES=-1\n") : HasSubstr("CUDA_VISIBLE_DEVICES=")) << i;
    EXPECT_EQ(std::count(log.begin(), log.end(), ','), i % 3 == 2 ? 1 : 0) << log;
  }
}

TEST_F(AgentTest, ChildrenSeeNoCredentials) {
  const testing::Variable url("FORETIME_REDIS", "redis://user:secret@host"), word("FORETIME_REDIS_PASSWORD", "secret");
  const auto id = submit("spy", "env FORETIME_REDIS\nenv FORETIME_REDIS_PASSWORD\nenv FORETIME_PROGRESS\n");
  run_all();
  EXPECT_THAT(log_of(id), AllOf(HasSubstr("FORETIME_REDIS=(none)"), HasSubstr("FORETIME_REDIS_PASSWORD=(none)"),
                                HasSubstr("agent.sock"), Not(HasSubstr("secret"))));
}

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
    options_.lease_term = Milliseconds(1500);
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
    const auto running =
        trial("running", "connect\nprogress 1 3\nsleep 2500\nevaluate 2 1 0.5\ncheckpoint 2\nresult 0.5\n");
    own.queue.submit(running);
    testing::RunningAgent agent(options_, factory());
    const auto state = [&](const std::string& id) { return own.queue.find(id).value().state; };
    ASSERT_TRUE(eventually([&] { return own.queue.find(running.id).value().step == 1; }));
    begin(operator_.client);
    EXPECT_TRUE(said.empty() || eventually([&] { return agent.log().find(said) != std::string::npos; })) << agent.log();
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
      EXPECT_THAT(agent.log(), Not(HasSubstr("trying again")));
    }
  }
};

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

TEST_F(AgentKillTest, AnAgentThatMayNotListenIsToldOnceItMay) {
  options_.until_empty = false;
  OwnQueue own(redis_.url());
  own.client.call({"ACL", "SETUSER", "default", "-subscribe"});
  testing::FastWorld world(40);
  testing::RunningAgent agent(options_, factory(), {}, world);
  ASSERT_TRUE(eventually([&] { return agent.log().find("since it may not be told") != std::string::npos; }));
  own.client.call({"ACL", "SETUSER", "default", "+subscribe"});
  EXPECT_TRUE(eventually([&] { return listens(own.client); }));
}

TEST_F(AgentKillTest, AJobBehindAPausedSweepStartsSoon) {
  options_.until_empty = false;
  OwnQueue own(redis_.url());
  testing::RunningAgent agent(options_, factory());
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
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(eventually([&] { return own.queue.find(specs.back().id).value().state == JobState::succeeded; }));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10)) << "it asks every 15 s without";
}

TEST_F(AgentKillTest, AnIdleAgentIsToldWhenAJobComes) {
  options_.until_empty = false;
  OwnQueue own(redis_.url());
  testing::RunningAgent agent(options_, factory());
  ASSERT_TRUE(eventually([&] { return listens(own.client); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const auto spec = trial("short", "connect\nresult 1\n");
  const auto start = std::chrono::steady_clock::now();
  own.queue.submit(spec);
  ASSERT_TRUE(eventually([&] { return own.queue.find(spec.id).value().state == JobState::succeeded; }));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(8)) << "it asks every 15 s without";
}

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
