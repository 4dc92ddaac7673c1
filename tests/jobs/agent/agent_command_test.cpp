#include "jobs/agent/agent_command.h"

#include <gmock/gmock.h>

#include "jobs/agent/attempt_folder.h"
#include "jobs/sweep/program_trial.h"
#include "tests/jobs/agent/agent_fixture.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"

namespace foretime::jobs {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Jobs that are about paths and command lines, through a whole agent.
class AgentCommandTest : public testing::AgentTest {
 protected:
  /// A trial like `trial(name, "")` with one setting changed.
  std::string submit_with(const std::string& name, const std::function<void(configs::Settings&)>& change) {
    auto spec = trial(name, "exit 0\n");
    auto settings = configs::parse_settings(spec.settings, "test");
    change(settings);
    spec.settings = configs::to_yaml(settings);
    spec.id = job_id(spec);
    return submit(spec);
  }
  std::string submit_with(const std::string& name, const std::string& key, const std::string& value) {
    return submit_with(name, [&](configs::Settings& settings) { configs::apply_override(settings, key, value); });
  }
  /// An agent of another time claims the one job, reports these checkpoints and gives it back.
  void leave_checkpoints(const std::vector<std::string>& checkpoints) {
    const auto lease = queue_.claim({"before", "token", 2, 0, Milliseconds(1000)}).value();
    for (const auto& checkpoint : checkpoints) queue_.report(lease, {.checkpoint = checkpoint});
    queue_.finish(lease, {.outcome = Outcome::preempted}, 0);
  }
  std::string trained() { return submit("trained", "connect\ncheckpoint 5\nresult 1\n"); }
  /// Runs all, each of which must fail at once with a part of its error.
  void expect_failures(const std::vector<std::pair<std::string, std::string>>& errors_by_id) {
    run_all();
    for (const auto& [id, error] : errors_by_id) {
      EXPECT_EQ(job(id).state, JobState::failed) << error;
      EXPECT_EQ(job(id).attempt, 1) << error;
      EXPECT_THAT(job(id).error, HasSubstr(error));
    }
  }
  JobSpec follower(JobKind kind, const std::string& settings, const std::string& after) {
    JobSpec spec{
        .kind = kind, .name = to_string(kind), .settings = settings, .metric = "test/kendall_tau", .after = {after}};
    spec.id = job_id(spec);
    return spec;
  }
};

TEST_F(AgentCommandTest, PathsOutsideOfTheRootsFail) {
  fs::create_symlink("/etc", data_ / "link");
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"data.root", "/etc"},         {"data.root", "../.."},        {"data.root", "link"},
      {"data.train", "/etc/passwd"}, {"data.train", "link/passwd"}, {"data.train", "*/../../x"},
      {"data.valid", "../*.npz"},    {"data.test", "link/*"},       {"data.eval_indices", "/etc/passwd"}};
  std::vector<std::pair<std::string, std::string>> errors;
  for (const auto& [key, value] : wrong)
    errors.emplace_back(submit_with("wrong" + std::to_string(errors.size()), key, value), key);
  expect_failures(errors);
}

TEST_F(AgentCommandTest, VectorsOfNodeTypesLieInsideOfTheRoots) {
  const auto with_vectors = [&](const std::string& name, const std::string& file) {
    return submit_with(name, [&](configs::Settings& settings) {
      settings.data.format = configs::DataFormat::programs;
      settings.model.node_types.vectors = configs::NodeTypeVectors::fasttext;
      settings.data.node_type_vectors = file;
    });
  };
  std::ofstream(data_ / "types.vec") << "\n";
  const auto inside = with_vectors("inside", "types.vec"), outside = with_vectors("outside", "/etc/passwd");
  run_all();
  EXPECT_EQ(job(outside).state, JobState::failed);
  EXPECT_THAT(job(outside).error, HasSubstr("data.node_type_vectors: /etc/passwd"));
  const auto settings = configs::load_settings(fs::canonical(runs_) / inside / "attempt-1" / "config.yaml");
  EXPECT_EQ(settings.data.node_type_vectors, fs::canonical(data_) / "types.vec");
}

TEST_F(AgentCommandTest, AJobCannotChooseWhereItWritesOrWhatItContinuesFrom) {
  const auto directory = submit_with("directory", "run.directory", "/tmp/elsewhere");
  const auto resume = submit_with("resume", "checkpoint.resume", "/etc");
  const auto confine = submit_with("confine", "data.allowed_roots", "[/]");
  EXPECT_EQ(run_all(), 3);
  for (const auto& id : {directory, resume, confine}) {
    const auto folder = fs::canonical(runs_) / id / "attempt-1";
    const auto settings = configs::load_settings(folder / "config.yaml");
    EXPECT_EQ(settings.run.directory, folder);
    EXPECT_EQ(settings.checkpoint.resume, "auto");
    EXPECT_THAT(settings.data.allowed_roots, ElementsAre(fs::canonical(data_).string()));
  }
}

TEST_F(AgentCommandTest, SettingsThatAreNoneFail) {
  auto spec = trial("nonsense", "");
  spec.settings = "trainer: {stepps: 3}";
  spec.id = job_id(spec);
  submit(spec);
  run_all();
  EXPECT_EQ(job(spec.id).state, JobState::failed);
  EXPECT_THAT(job(spec.id).error, HasSubstr("stepps"));
}

TEST_F(AgentCommandTest, EvaluationsActOnTheRunAndGiveTheirPrintedMetrics) {
  const auto run = trained();
  const auto id = submit(follower(JobKind::evaluate, "{files: ['a*.npz'], set: {data.max_eval_candidates: 7}}", run));
  EXPECT_EQ(run_all(), 2);
  const auto record = job(id);
  EXPECT_EQ(record.state, JobState::succeeded);
  EXPECT_EQ(record.objective, 0.25);
  const auto folder = fs::canonical(runs_) / run / "attempt-1";
  const auto data = fs::canonical(data_).string();
  EXPECT_EQ(log_of(id), "argument evaluate\nargument " + folder.string() + "\nargument " + data +
                            "/a*.npz\nargument --set\nargument data.max_eval_candidates=7\nargument --set\n" +
                            "argument data.allowed_roots=[\"" + data + "\"]\nargument --json\n");
}

TEST_F(AgentCommandTest, ExportsGoIntoTheFolderOfTheAttempt) {
  const auto run = trained();
  EXPECT_EQ(run_all(), 1);
  auto spec = follower(JobKind::export_, "", run);
  spec.resources.ranks = 2;  // two of them would write into one folder
  options_.launcher = Launcher("no-such-launcher {command}");
  const auto id = submit(spec);
  EXPECT_EQ(run_all(), 1);
  EXPECT_EQ(job(id).state, JobState::succeeded);
  EXPECT_EQ(job(id).checkpoint, id + "/attempt-1/export");
  EXPECT_TRUE(fs::is_directory(runs_ / job(id).checkpoint));
}

TEST_F(AgentCommandTest, FineTuningsLeaveABundle) {
  JobSpec spec{
      .kind = JobKind::finetune,
      .settings = "model: base.foretime\nrecords: [a.json, 'b*.json']\ndags: s.jsonl\nreplay: [old]\nholdout: 0.5\n",
      .metric = "holdout/kendall_tau",
      .resources = {.ranks = 3, .cpus = 1}};
  spec.id = job_id(spec);
  options_.cpus = 3;
  options_.launcher = Launcher("env {command}");
  submit(spec);
  EXPECT_EQ(run_all(), 1);
  const auto record = job(spec.id);
  EXPECT_EQ(record.state, JobState::succeeded) << record.error;
  EXPECT_EQ(record.checkpoint, spec.id + "/attempt-1/model.foretime");
  EXPECT_EQ(record.objective, 0.5);
  const auto data = fs::canonical(data_).string(), folder = (fs::canonical(runs_) / spec.id / "attempt-1").string();
  std::string expected;
  for (const std::string& argument :
       std::vector<std::string>{"finetune", data + "/base.foretime", data + "/a.json", data + "/b*.json", "--dags",
                                data + "/s.jsonl", "--replay", data + "/old", "--holdout", "0.5", "--threads", "1",
                                "--confine", data, "-o", folder + "/model.foretime"})
    expected += "argument " + argument + "\n";
  EXPECT_EQ(log_of(spec.id), expected);

  // It goes on from the bundle of another one, and succeeds where the parent's weights were kept.
  auto next = follower(JobKind::finetune, "records: [c.json]\nlearning_rate: 2\n", spec.id);
  submit(next);
  EXPECT_EQ(run_all(), 1);
  EXPECT_EQ(job(next.id).state, JobState::succeeded) << job(next.id).error;
  EXPECT_EQ(job(next.id).checkpoint, next.id + "/attempt-1/model.foretime");
  EXPECT_THAT(log_of(next.id), AllOf(HasSubstr("argument finetune\nargument " + folder + "/model.foretime\n"),
                                     HasSubstr("argument --confine\nargument " + folder + "\n")));
}

TEST_F(AgentCommandTest, EvaluationsExportsAndFineTuningsSucceedOnlyWithTheirProduct) {
  const auto run = trained();
  EXPECT_EQ(run_all(), 1);
  const auto quiet = scratch_.path() / "quiet";
  std::ofstream(quiet) << "#!/bin/sh\nexit 0\n";
  fs::permissions(quiet, fs::perms::owner_all);
  options_.program = quiet;
  JobSpec tuning{.kind = JobKind::finetune, .settings = "model: base.foretime\nrecords: [a.json]\n"};
  tuning.id = job_id(tuning);
  const std::vector<std::pair<JobSpec, std::string>> jobs = {
      {follower(JobKind::evaluate, "{files: [a]}", run), "no metrics"},
      {follower(JobKind::export_, "", run), "export: no manifest"},
      {tuning, "model.foretime: no such file"}};
  for (const auto& [spec, error] : jobs) submit(spec);
  run_all();
  for (const auto& [spec, error] : jobs) {
    EXPECT_EQ(job(spec.id).state, JobState::dead) << error;
    EXPECT_MESSAGE(testing::first_line(job(spec.id).error), error);
  }
}

TEST_F(AgentCommandTest, FineTuningsThatReachBeyondTheirMeansFail) {
  const auto run = trained();
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"{model: /etc/passwd, records: [a]}", "finetune.model: /etc/passwd: lies outside"},
      {"{model: m, records: [../a]}", "finetune.records"},
      {"{model: m, records: ['*/../../a']}", "finetune.records"},
      {"{model: m, records: [a], dags: /etc/passwd}", "finetune.dags"},
      {"{model: m, records: [a], replay: [/etc]}", "finetune.replay"},
      {"{model: m, records: [a], output: /etc}", "output: unknown key"},
      {"[1", "no YAML"},
      {"{model: m}", "no records"}};
  std::vector<std::pair<std::string, std::string>> errors = {
      {submit(follower(JobKind::finetune, "{records: [a]}", run)), "left no bundle"}};
  for (const auto& [settings, expected] : wrong) {
    JobSpec spec{.kind = JobKind::finetune, .settings = settings};
    spec.id = job_id(spec);
    errors.emplace_back(submit(spec), expected);
  }
  expect_failures(errors);
}

TEST_F(AgentCommandTest, EvaluationsThatReachBeyondTheirMeansFail) {
  const auto run = trained();
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"{files: [/etc/passwd]}", "lies outside"},
      {"{set: {data.root: /}}", "belongs to the agent"},
      {"{set: {data.allowed_roots: '[/]'}}", "belongs to the agent"},
      {"{set: {run.directory: /}}", "belongs to the agent"},
      {"{set: {no.such: 1}}", "no.such"},
      {"{set: {data.max_eval_candidates: many}}", "many"},
      {"[1", "no YAML"},
      {"[1]", "expected a map"}};
  const auto nothing = submit("untrained", "connect\nresult 1\n");
  std::vector<std::pair<std::string, std::string>> errors = {
      {submit(follower(JobKind::evaluate, "", nothing)), "left no checkpoint"}};
  for (const auto& [settings, expected] : wrong)
    errors.emplace_back(submit(follower(JobKind::evaluate, settings, run)), expected);
  expect_failures(errors);
}

TEST_F(AgentCommandTest, AFolderOfProgramsThatIsMissingIsTheMachinesFault) {
  const Lease lease{.spec = {.kind = JobKind::train, .settings = to_settings({"train.py", default_command(), {}})}};
  const auto& programs = options_.roots.programs = scratch_.path() / "programs";
  const AttemptPlace place{scratch_.path(), {}};
  const auto command = [&] { attempt_command(lease, {}, options_, {}, place); };
  EXPECT_MESSAGE(testing::message_of<NodeError>(command), "programs");
  fs::create_directories(programs);
  EXPECT_MESSAGE(testing::message_of<NodeError>(command));
  std::ofstream(programs / "other.py") << "print()\n";
  EXPECT_MESSAGE(testing::message_of<MissingProgram>(command), "train.py");
  std::ofstream(programs / "train.py") << "print()\n";
  EXPECT_NO_THROW(command());
}

TEST_F(AgentCommandTest, ACheckpointThatIsNotHereBeginsAnewAndOneOutsideIsNotRead) {
  const auto id = submit("moved", "resume\nexit 0\n");
  leave_checkpoints({"elsewhere/attempt-1/checkpoints/step-3", "../../../etc"});
  run_all();
  EXPECT_EQ(job(id).state, JobState::succeeded);
  EXPECT_THAT(log_of(id), HasSubstr("resume auto"));
}

TEST_F(AgentCommandTest, WhereThePublishedCheckpointWasPrunedTheNewestBesideItIsContinued) {
  const auto id = submit("pruned", "resume\nexit 0\n");
  const auto folder = runs_ / id / "attempt-1" / "checkpoints";
  for (const auto* step : {"step-00000005", "step-00000007", "step-00000009"}) fs::create_directories(folder / step);
  mark_attempt(folder.parent_path(), {id, options_.queue});
  for (const auto* whole : {"step-00000005", "step-00000007"}) std::ofstream(folder / whole / "manifest.json") << "{}";
  leave_checkpoints({id + "/attempt-1/checkpoints/step-00000003"});
  run_all();
  EXPECT_THAT(log_of(id), HasSubstr("resume " + (fs::canonical(folder) / "step-00000007").string()));
}

TEST_F(AgentCommandTest, WhereThePublishedCheckpointIsDamagedAnOlderAttemptIsContinued) {
  const auto id = submit("damaged", "resume\n");
  const auto first = runs_ / id / "attempt-1" / "checkpoints", second = runs_ / id / "attempt-2" / "checkpoints";
  const auto write = [](const fs::path& folder, size_t bytes) {
    fs::create_directories(folder);
    std::ofstream(folder / "model.safetensors") << std::string(bytes, 'w');
    std::ofstream(folder / "manifest.json") << R"({"files": {"model.safetensors": {"bytes": 100, "crc32": 1}}})";
  };
  write(first / "step-00000003", 100);
  write(first / "step-00000005", 100);
  write(first / "step-00000006", 40);  // cut
  write(second / "step-00000009", 40);
  for (const auto& checkpoints : {first, second}) mark_attempt(checkpoints.parent_path(), {id, options_.queue});
  leave_checkpoints({id + "/attempt-2/checkpoints/step-00000009"});
  run_all();
  EXPECT_THAT(log_of(id), AllOf(HasSubstr("resume " + (fs::canonical(first) / "step-00000005").string()),
                                HasSubstr("step-00000009/model.safetensors: 40 bytes, the manifest says 100")));
}

/// A whole checkpoint in each of some folders of a job; the published one is gone.
// Promise storage/attempts-own: a training resumes only from attempts of its own job and queue
TEST_F(AgentCommandTest, OnlyAttemptsOfThisJobAndQueueAreContinued) {
  options_.queue = "ours";
  const auto id = submit("foreign", "resume\n");
  const auto write = [&](const std::string& attempt, int step, const AttemptOwner& owner) {
    const auto folder = runs_ / id / attempt / fmt::format("checkpoints/step-{:08}", step);
    fs::create_directories(folder);
    std::ofstream(folder / "manifest.json") << "{}";
    if (!owner.job.empty()) mark_attempt(runs_ / id / attempt, owner);
  };
  write("attempt-1", 3, {id, "ours"});
  write("attempt-1-t", 9, {id, "theirs"});
  write("attempt-2", 8, {});
  write("attempt-3", 7, {"another", "ours"});
  fs::copy(runs_ / id / "attempt-1", runs_ / id / "attempt-1 (copy)", fs::copy_options::recursive);
  fs::create_directories(runs_ / id / "attempt-1 (copy)/checkpoints/step-00000006");
  std::ofstream(runs_ / id / "attempt-1 (copy)/checkpoints/step-00000006/manifest.json") << "{}";
  // The record may name a folder of another queue: an attempt of this one had that name and was removed by hand.
  leave_checkpoints({id + "/attempt-1-t/checkpoints/step-00000009"});
  run_all();
  EXPECT_THAT(log_of(id),
              HasSubstr("resume " + (fs::canonical(runs_ / id) / "attempt-1/checkpoints/step-00000003").string()));
  EXPECT_THAT(log_of(id), HasSubstr("not in an attempt that this queue's agents made for job " + id));
}

TEST_F(AgentCommandTest, AJobThatIsTooLargeForTheAgentWaitsForAnotherAndDoesNotHoldThisOne) {
  options_.cpus = 2;
  auto large = trial("large", "exit 0\n");
  large.resources.cpus = 3;
  submit(large);
  const auto small = submit("small", "exit 0\n");
  EXPECT_EQ(run_all(), 1);
  EXPECT_EQ(job(small).state, JobState::succeeded);
  EXPECT_EQ(job(large.id).state, JobState::waiting);
}

TEST_F(AgentCommandTest, RanksGoThroughTheLauncherAndAMissingOneIsAnError) {
  options_.launcher = Launcher("no-such-launcher -n {ranks} {command}");
  auto spec = trial("ranks", "exit 0\n");
  spec.resources.ranks = 2;
  spec.max_attempts = 2;
  submit(spec);
  run_all();
  EXPECT_EQ(job(spec.id).state, JobState::dead);
  EXPECT_EQ(job(spec.id).failures, 2);
  EXPECT_THAT(job(spec.id).error, HasSubstr("no-such-launcher"));
}

TEST_F(AgentCommandTest, AFolderThatIsThereAlreadyIsNotSharedWithAZombie) {
  const auto id = submit("zombie", "exit 0\n");
  fs::create_directories(runs_ / id / "attempt-1");
  std::ofstream(runs_ / id / "attempt-1" / "config.yaml") << "of another";
  run_all();
  EXPECT_EQ(job(id).state, JobState::succeeded);
  EXPECT_EQ(testing::read_text(runs_ / id / "attempt-1" / "config.yaml"), "of another");
}

TEST_F(AgentCommandTest, DeferredParametersAreDecidedBeforeTheStart) {
  SweepSpec sweep{.id = "fedcba9876543210", .method = "bayes"};
  queue_.create_sweep(sweep);
  auto good = trial("deferred", "threads\n"), bad = trial("impossible", "exit 0\n");
  for (auto* spec : {&good, &bad}) {
    spec->sweep = sweep.id;
    spec->deferred = true;
    submit(*spec);
  }
  const auto propose = [&](JobQueue& queue, const Lease& lease) {
    Parameters parameters{{"trainer.threads", lease.job == good.id ? "3" : "-3"}};
    EXPECT_TRUE(queue.propose(lease, parameters));
    return parameters;
  };
  run_all(propose);
  EXPECT_EQ(job(good.id).state, JobState::succeeded);
  EXPECT_THAT(log_of(good.id), HasSubstr("threads=3"));
  EXPECT_EQ(job(bad.id).state, JobState::failed);
  EXPECT_THAT(job(bad.id).error, HasSubstr("trainer.threads"));
}

TEST_F(AgentCommandTest, LongPathsHaveTheirSocketElsewhere) {
  options_.roots.runs = runs_ / std::string(120, 'r');
  const auto id = submit("long", "connect\nprogress 3 3\nenv FORETIME_PROGRESS\nresult 1\n");
  run_all();
  EXPECT_EQ(job(id).step, 3);
  EXPECT_THAT(log_of(id), HasSubstr("FORETIME_PROGRESS=/tmp/foretime-"));
}

TEST_F(AgentCommandTest, RootsThatAreNoneAreSaidAtOnce) {
  options_.roots.data = {scratch_.path() / "missing"};
  EXPECT_THROW(start_agent(), JobsError);
  options_.roots.data = {};
  options_.gpus = {"0", "0"};
  EXPECT_THROW(start_agent(), JobsError);
}

}  // namespace
}  // namespace foretime::jobs
