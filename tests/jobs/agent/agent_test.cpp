#include "jobs/agent/agent.h"

#include <csignal>

#include <gmock/gmock.h>

#include "history/history.h"
#include "tests/jobs/agent/agent_fixture.h"
#include "tests/support/golden.h"

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
// Promise agents/job-result
TEST_F(AgentTest, ATrainingWhoseChannelWasNeverReachedHasTheResultThatItLeftOnDisk) {
  const auto id = submit("silent", "print trained\n");
  EXPECT_EQ(run_all(), 1);
  EXPECT_EQ(job(id).state, JobState::succeeded);
  EXPECT_EQ(job(id).objective, 1);
  EXPECT_EQ(job(id).metrics.at("valid/kendall_tau"), 1);
  EXPECT_EQ(job(id).step, 12);
  EXPECT_EQ(job(id).checkpoint, id + "/attempt-1/checkpoints/step-00000012");
}

// Promise agents/job-result: no job succeeds without a result
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
    EXPECT_MESSAGE(testing::first_line(job(id).error), "metrics.jsonl");
  }
  EXPECT_EQ(job(other.id).state, JobState::failed);
  EXPECT_MESSAGE(testing::first_line(job(other.id).error), "valid/kendall_tau");
}

/// Its socket is not there for it, but its metrics grow.
TEST_F(AgentTest, ATrainingWhoseChannelWasNeverReachedIsNotHungWhileItWritesMetrics) {
  options_.stall_seconds = 6;
  const auto id = submit("grows", "metrics 8 1000\n");
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
  EXPECT_MESSAGE(testing::first_line(job(crash).error));
  EXPECT_EQ(job(poison).state, JobState::dead);
  EXPECT_EQ(job(poison).results, 0);
  EXPECT_EQ(job(preempted).state, JobState::succeeded);
  EXPECT_EQ(job(preempted).attempt, 1) << "an attempt that was preempted does not count";
  EXPECT_EQ(job(preempted).fence, 2);
}

TEST_F(AgentTest, AnAttemptThatEndsByTheStorageDoesNotCount) {
  auto spec = trial("full", "resume\nconnect\nonce a checkpoint 40\nonce b exit 74\nonce c exit 74\nresult 1\n");
  spec.max_attempts = 1;
  submit(spec);
  EXPECT_EQ(run_all(), 1);
  EXPECT_EQ(job(spec.id).state, JobState::succeeded) << job(spec.id).error;
  EXPECT_EQ(job(spec.id).failures, 0);
  EXPECT_EQ(job(spec.id).attempt, 1);
  EXPECT_EQ(job(spec.id).fence, 3);
  EXPECT_THAT(log_of(spec.id), HasSubstr("attempt-1/checkpoints/step-40"));
}

TEST_F(AgentTest, AnAttemptWhoseFolderIsMovedAwayDoesNotCountWhateverItsDataWere) {
  auto spec = trial("moved", "connect\nonce a move\nonce b exit 3\nresult 1\n");
  spec.max_attempts = 1;
  submit(spec);
  EXPECT_EQ(run_all(), 1);
  EXPECT_EQ(job(spec.id).state, JobState::succeeded) << job(spec.id).error;
  EXPECT_EQ(job(spec.id).failures, 0);
}

TEST_F(AgentTest, AJobThatRunsOutOfMemoryIsTriedTwice) {
  const auto always = submit("large", "exit 8\n"), once = submit("unlucky", "connect\nonce a exit 8\nresult 1\n"),
             killed = submit("killed", "exit 137\n");
  run_all();
  EXPECT_EQ(job(always).state, JobState::failed);
  EXPECT_EQ(job(always).attempt, 2);
  EXPECT_MESSAGE(testing::first_line(job(always).error));
  EXPECT_EQ(job(once).state, JobState::succeeded) << job(once).error;
  EXPECT_EQ(job(killed).state, JobState::dead) << "nobody knows that this was for want of memory";
  EXPECT_MESSAGE(testing::first_line(job(killed).error));
}

TEST_F(AgentTest, TheNextAttemptContinuesFromThePublishedCheckpoint) {
  const auto id = submit("flaky", "resume\nconnect\nonce mark checkpoint 40\nonce mark2 exit 1\nresult 1\n");
  run_all();
  EXPECT_EQ(job(id).state, JobState::succeeded);
  EXPECT_EQ(job(id).attempt, 2);
  EXPECT_THAT(log_of(id), AllOf(HasSubstr("resume auto"), HasSubstr("attempt-1/checkpoints/step-40")));
}

TEST_F(AgentTest, AHistoryGoesOnWithTheNextAttempt) {
  // The first attempt evaluates at steps 10, 20 and 30, and has a checkpoint of step 20.
  const auto id = submit("flaky",
                         "resume\nconnect\nonce a steps 25 10 5\nonce b evaluate 30 3 7\nonce c exit 1\n"
                         "steps 40 10 5\nresult 1\n");
  run_all();
  ASSERT_EQ(job(id).state, JobState::succeeded);
  EXPECT_EQ(job(id).attempt, 2);
  EXPECT_LE(job(id).history.size(), Limits::kEndedHistory);
  const auto history = history::unpack(job(id).history);
  EXPECT_EQ(history.series().at("valid/kendall_tau"), (history::Series{{10, 10}, {20, 20}, {30, 30}, {40, 40}}));
  const auto& loss = history.series().at("loss");
  for (size_t i = 1; i < loss.size(); ++i) EXPECT_LT(loss[i - 1].step, loss[i].step);
}

TEST_F(AgentTest, WhatAJobMeasuresIsKeptWhileItRuns) {
  const auto id = submit("measured", "connect\nprogress 3 100\nmeasure 10 0.25\nevaluate 10 1 0.5\nsleep 600000\n");
  const auto agent = start_agent();
  const auto evaluated = [](const JobRecord& record) { return record.history.find("valid/") != std::string::npos; };
  ASSERT_TRUE(reaches(id, evaluated));
  const auto history = history::unpack(job(id).history);
  EXPECT_EQ(history.series().at("loss"), (history::Series{{10, 0.25}}));
  EXPECT_EQ(history.series().at("valid/kendall_tau"), (history::Series{{10, 0.5}}));
  queue_.cancel(id);
  agent->join();
  EXPECT_EQ(job(id).state, JobState::cancelled);
  EXPECT_EQ(history::unpack(job(id).history), history);
}

TEST_F(AgentTest, AnOutageOfRedisDoesNotDisturbARunningJob) {
  options_.lease_term = Milliseconds(60000);
  const auto goes_on = scratch_.path() / "goes_on";
  const auto id = submit("outage", "connect\nprogress 1 3\nawait " + goes_on.string() +
                                       "\nprint meanwhile\nevaluate 2 1 0.5\ncheckpoint 2\nresult 0.5\n");
  const auto agent = start_agent();
  ASSERT_TRUE(reaches(id, [](const JobRecord& record) { return record.step == 1; }));
  faults_.away = true;
  ASSERT_TRUE(eventually([&] { return agent->log().find("connection refused") != std::string::npos; }));
  std::ofstream(goes_on) << "\n";
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
  const auto first = log.find("cannot take back expired leases, other agents will");
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(log.find("cannot take back expired leases", first + 1), std::string::npos) << "said once";
}

// Promise agents/key-damaged: a damaged key costs one job's attempt, not its agent
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
  EXPECT_THAT(agent->log(), HasSubstr("WRONGTYPE"));
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
                    HasSubstr("expected a whole checkpoint"), HasSubstr("4 invalid messages were ignored")));
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

}  // namespace
}  // namespace foretime::jobs
