// Jobs that run a program of the user's own: who claims them, and which ends are final.
#include <fstream>

#include <gmock/gmock.h>

#include "jobs/agent/program_folder.h"
#include "jobs/sweep/program_trial.h"
#include "tests/jobs/agent/agent_fixture.h"
#include "tests/support/golden.h"
#include "tests/support/paths.h"

namespace foretime::jobs {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class ProgramJob : public testing::AgentTest {
 protected:
  ProgramJob() {
    fs::create_directories(programs_);
    std::ofstream(programs_ / "other.sh") << "exit 1\n";  // an empty folder is one that is not mounted
    options_.roots.programs = programs_;
  }
  void write(const std::string& name, const std::string& script) {
    std::ofstream(programs_ / name) << "run=$(dirname \"$FORETIME_TRIAL\")\n" << script;
  }
  /// Submits a trial of a shell script with the metric val_loss.
  std::string submit_program(const std::string& name) {
    const ProgramTrial trial{name, {"/bin/sh", "${program}"}, {}};
    JobSpec spec{.kind = JobKind::train,
                 .name = name,
                 .settings = to_settings(trial),
                 .metric = "val_loss",
                 .program = program_key(trial)};
    spec.id = job_id(spec);
    return submit(spec);
  }
  std::string submit_program(const std::string& name, const std::string& script) {
    write(name, script);
    return submit_program(name);
  }

  fs::path programs_ = scratch_.path() / "programs";
};

TEST_F(ProgramJob, AnAgentWithoutProgramsLeavesThemToOthers) {
  const auto program = submit_program("train.sh", "exit 0\n");
  const auto own = submit("own", "connect\nresult 1\n");
  options_.roots.programs.clear();
  const auto agent = start_agent();
  EXPECT_EQ(agent->join(), 1);
  EXPECT_EQ(job(own).state, JobState::succeeded);
  EXPECT_EQ(job(program).state, JobState::waiting);
  EXPECT_EQ(job(program).fence, 0) << "it was never claimed";
  EXPECT_THAT(agent->log(), HasSubstr("1 waiting jobs run user programs: start an agent with --programs"));
}

TEST_F(ProgramJob, AProgramThatIsMissingIsLeftToOthersUntilItIsThere) {
  testing::FastWorld fast(20);
  world_ = &fast;
  options_.until_empty = false;
  options_.stall_seconds = 6000;
  const auto missing = submit_program("late.sh");
  const auto second = [&] {  // waits behind it, in the same folder
    return submit_program("here.sh", "echo '{\"kind\":\"final\",\"step\":1,\"val_loss\":1}' > $run/metrics.jsonl\n");
  }();
  const auto agent = start_agent();
  ASSERT_TRUE(reaches(second, [](const JobRecord& record) { return record.state == JobState::succeeded; }));
  EXPECT_MESSAGE(testing::first_line(job(missing).error), "late.sh", "--programs");
  EXPECT_EQ(job(missing).state, JobState::waiting);
  // It asks for jobs, and does not claim this one again.
  const auto claims = [&] {
    const std::lock_guard lock(calls_mutex_);
    return calls_["claim"];
  };
  const auto before = claims();
  ASSERT_TRUE(testing::eventually([&] { return claims() > before + 5; }));
  EXPECT_EQ(job(missing).fence, 1);
  EXPECT_EQ(job(missing).failures, 0);
  EXPECT_EQ(job(missing).state, JobState::waiting);
  write("late.sh", "echo '{\"kind\":\"final\",\"step\":1,\"val_loss\":2}' > $run/metrics.jsonl\n");
  EXPECT_TRUE(reaches(missing, [](const JobRecord& record) { return record.state == JobState::succeeded; }));
  EXPECT_EQ(job(missing).attempt, 1);
  agent->stop();
  agent->join();
}

TEST_F(ProgramJob, AnAgentThatEndsWhenTheQueueIsEmptyDoesNotWaitForAMissingProgram) {
  const auto missing = submit_program("late.sh");
  const auto agent = start_agent();
  EXPECT_EQ(agent->join(), 0);
  EXPECT_EQ(job(missing).state, JobState::waiting);
  EXPECT_THAT(agent->log(), HasSubstr("1 waiting jobs need programs that are missing in --programs"));
}

TEST_F(ProgramJob, AGoodEndWithoutAResultIsFinalAndSaysWhatToAdd) {
  const auto silent = submit_program("silent.sh", "echo epoch 1 val_loss 0.5\n");
  const auto other =
      submit_program("other_metric.sh", "echo '{\"kind\":\"final\",\"step\":1,\"loss\":0.5}' > $run/metrics.jsonl\n");
  run_all();
  for (const auto& id : {silent, other}) {
    EXPECT_EQ(job(id).state, JobState::failed);
    EXPECT_EQ(job(id).attempt, 1);
  }
  EXPECT_MESSAGE(testing::first_line(job(silent).error), "foretime.Trial()", "\"val_loss\": value", "metrics.jsonl",
                 "docs/reference/sweep-files.md");
  EXPECT_MESSAGE(testing::first_line(job(other).error), "metric.name");
}

TEST_F(ProgramJob, APythonProgramFindsForetimesModulesAndItsMetric) {
  options_.compat = compat_folder(testing::source_dir() / "build/release/cli/foretime");
  EXPECT_EQ(options_.compat, testing::source_dir() / "python/foretime/compat");
  const auto id = submit_program("path.sh",
                                 "echo path $PYTHONPATH\ncat $FORETIME_TRIAL\n"
                                 "echo '{\"kind\":\"final\",\"step\":1,\"val_loss\":1}' > $run/metrics.jsonl\n");
  run_all();
  EXPECT_THAT(log_of(id), AllOf(ContainsRegex("path .*foretime/compat"), HasSubstr("\"metric\": \"val_loss\""),
                                HasSubstr("\"goal\": \"maximize\"")));
  EXPECT_EQ(compat_folder("/nowhere/bin/foretime"), fs::path());
}

TEST_F(ProgramJob, AnyNumberInItsMetricsIsAMetricAndNoCheckpointIsNeeded) {
  const auto id = submit_program("metrics.sh",
                                 "echo '{\"kind\":\"final\",\"step\":7,\"val_loss\":0.5,\"note\":\"x\",\"gap\":NaN}' "
                                 "> $run/metrics.jsonl\n");
  const auto diverged =
      submit_program("nan.sh", "echo '{\"kind\":\"final\",\"step\":7,\"val_loss\":-Infinity}' > $run/metrics.jsonl\n");
  run_all();
  EXPECT_EQ(job(id).state, JobState::succeeded) << job(id).error;
  EXPECT_EQ(job(id).objective, 0.5);
  EXPECT_EQ(job(id).metrics, (std::map<std::string, double>{{"val_loss", 0.5}}));
  EXPECT_EQ(job(id).step, 7);
  EXPECT_EQ(job(diverged).state, JobState::succeeded) << job(diverged).error;
  EXPECT_FALSE(job(diverged).objective);
}

}  // namespace
}  // namespace foretime::jobs
