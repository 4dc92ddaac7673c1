// One attempt over files in memory: which checkpoint is its result.

#include "jobs/agent/agent_job.h"

#include <cerrno>
#include <deque>
#include <string_view>

#include <gmock/gmock.h>
#include <spdlog/sinks/null_sink.h>

#include "base/atomic_file.h"
#include "jobs/agent/attempt_folder.h"
#include "jobs/agent/run_folder.h"
#include "jobs/sweep/program_trial.h"
#include "tests/jobs/agent/training_settings.h"
#include "tests/jobs/queue/memory_queue.h"
#include "tests/simulation/simulated_files.h"
#include "tests/support/golden.h"

namespace foretime::jobs {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Kind = ProgressMessage::Kind;

/// Time that stands still, and one command, whose messages and end a test decides.
class Stage final : public World {
 public:
  double steady_seconds() override { return now; }
  uint64_t random_bits() override { return 1; }
  std::unique_ptr<RunningCommand> start(SupervisedProcess::Options, const fs::path&) override {
    struct Command final : RunningCommand {
      explicit Command(Stage& stage) : stage_(stage) {}
      void add_descriptors(std::vector<pollfd>&) const override {}
      std::optional<ExitStatus> poll_exit() override { return stage_.exit; }
      void read_output(bool, const Sink& output, const Sink&) override { output(std::exchange(stage_.output, "")); }
      void receive(const std::function<void(const ProgressMessage&)>& message,
                   const std::function<void(const std::string&)>&) override {
        for (; !stage_.messages.empty(); stage_.messages.pop_front()) message(stage_.messages.front());
      }
      bool connected() const override { return !stage_.exit; }
      void request_stop(const std::string&) override {}
      void terminate() override {}
      void kill() override { stage_.killed = true; }
      Stage& stage_;
    };
    return std::make_unique<Command>(*this);
  }
  /// File work is done as soon as it is asked for, or when the test lets go of it.
  std::unique_ptr<Background> run_beside(std::function<double()> step) override {
    struct Beside final : Background {
      Beside(Stage& stage, std::function<double()> given) : stage_(stage), step_(std::move(given)) {}
      ~Beside() override { stage_.beside = nullptr; }
      void wake() override {
        if (!stage_.storage_hangs) step_();
      }
      Stage& stage_;
      std::function<double()> step_;
    };
    auto made = std::make_unique<Beside>(*this, std::move(step));
    beside = made.get();
    return made;
  }
  std::unique_ptr<Waiter> make_waiter() override { return nullptr; }

  double now = 1000;
  bool storage_hangs = false;
  Background* beside = nullptr;
  std::deque<ProgressMessage> messages;
  std::string output;
  std::optional<ExitStatus> exit;
  bool killed = false;
};

class AgentJobTest : public ::testing::Test {
 protected:
  AgentJobTest() : scope_(disk_), log_("job", std::make_shared<spdlog::sinks::null_sink_mt>()) {
    files().create_folders("/runs");
    files().create_folders("/data");
    files().open("/data/C1.npz", Files::Open::replace)->write("group");
    options_.roots.data = {"/data"};
    options_.roots.runs = "/runs";
    options_.program = "/bin/true";
    options_.stop_grace_seconds = 1;
    spec_ = {.id = "job",
             .kind = JobKind::train,
             .settings = foretime::testing::training_settings("/data", "C1.npz"),
             .metric = "valid/kendall_tau"};
  }
  /// The storage fails wherever a path has this in it.
  void fail_at(const std::string& name) {
    disk_.fail_by([name](const char*, const fs::path& path, size_t) {
      return path.string().find(name) != std::string::npos ? EIO : 0;
    });
  }

  /// A whole checkpoint of an attempt, relative to the run root.
  static std::string store(int64_t fence, int64_t step) {
    const auto path = fmt::format("job/attempt-{}/checkpoints/step-{:08}", fence, step);
    files().create_folders(fs::path("/runs") / path);
    mark_attempt(fmt::format("/runs/job/attempt-{}", fence), {"job", ""});
    files().open(fs::path("/runs") / path / "manifest.json", Files::Open::replace)->write("{}");
    return path;
  }
  /// The disk is full when a file of that name is closed.
  void fail_closing(const std::string& name) {
    disk_.fail_by([name](const char* operation, const fs::path& path, size_t) {
      return std::string_view(operation) == "close" && path.filename() == name ? ENOSPC : 0;
    });
  }
  void start(int64_t fence, const std::string& published) {
    job_.emplace(
        Lease{.job = spec_.id, .agent = "a", .fence = fence, .token = "t", .spec = spec_, .checkpoint = published},
        JobSlots{}, options_, nullptr, [] {}, stage_, log_);
    job_->start(queue_, {});
  }
  void begin(int64_t fence, const std::string& published) {
    start(fence, published);
    ASSERT_FALSE(job_->ended()) << job_->result().error;
  }
  const JobResult& end(ExitStatus status) {
    stage_.exit = status;
    job_->tick(stage_.now);
    return job_->result();
  }
  /// Asked to end at a rung; killed, since it did not listen.
  const JobResult& stop() {
    job_->request_stop(StopReason::early_stopping, stage_.now);
    stage_.now += 2;
    job_->tick(stage_.now);  // SIGTERM
    return end({137, 9});
  }
  void name_checkpoint(const std::string& path) {
    stage_.messages.push_back({.kind = Kind::checkpoint, .step = 1, .path = "/runs/" + path});
    job_->tick(stage_.now);
  }
  void say_result() { stage_.messages.push_back({.kind = Kind::result, .metrics = {{"valid/kendall_tau", 0.5}}}); }

  simulation::SimulatedFiles disk_;
  FilesScope scope_;
  spdlog::logger log_;
  AgentOptions options_;
  Stage stage_;
  MemoryQueue queue_;
  JobSpec spec_;
  std::optional<AgentJob> job_;
};

// Promise storage/checkpoint-kept: a trial that is stopped before its first checkpoint keeps a copy of the one that it
// resumed from
TEST_F(AgentJobTest, OneThatIsStoppedBeforeItsFirstCheckpointKeepsTheOneThatItWentOnFrom) {
  const auto newer = store(1, 4);  // step 2, which was published, has been removed since
  begin(2, "job/attempt-1/checkpoints/step-00000002");
  EXPECT_EQ(stop().outcome, Outcome::stopped);
  const auto& kept = job_->result().checkpoint;
  EXPECT_EQ(kept, "job/attempt-2/checkpoints/step-00000004");
  // The attempt before may live behind a cut network, and prune.
  files().remove("/runs/" + newer);
  EXPECT_EQ(checkpoint_damage("/runs/" + kept), "");
}

TEST_F(AgentJobTest, OneThatIsStoppedBeforeItsFirstCheckpointKeepsTheBestOneBesideTheLast) {
  store(1, 2);
  const auto newest = store(1, 4);
  write_whole("/runs/job/attempt-1/checkpoints/best.json", "{\"step\": 2, \"metric\": \"m\", \"value\": 1}");
  write_whole("/runs/job/attempt-1/data.json", "{}");
  begin(2, newest);
  EXPECT_EQ(stop().checkpoint, "job/attempt-2/checkpoints/step-00000004");
  files().remove("/runs/job/attempt-1");
  const fs::path own = "/runs/job/attempt-2";
  EXPECT_EQ(checkpoint_damage(own / "checkpoints/step-00000002"), "");
  EXPECT_THAT(files().read(own / "checkpoints/best.json"), HasSubstr("\"step\": 2"));
  EXPECT_TRUE(files().exists(own / "data.json"));
}

// Promise storage/checkpoint-kept
TEST_F(AgentJobTest, OneThatIsStoppedWhereTheDiskIsFullIsGivenBackWithItsCheckpoint) {
  const auto before = store(1, 4);
  begin(2, before);
  fail_at("attempt-2/checkpoints/step-00000004");
  const auto result = stop();
  EXPECT_EQ(result.outcome, Outcome::preempted);
  EXPECT_EQ(checkpoint_damage("/runs/" + before), "");
}

TEST_F(AgentJobTest, OneThatIsStoppedKeepsACheckpointOfItsOwnThatItNeverNamed) {
  store(1, 4);
  begin(2, "job/attempt-1/checkpoints/step-00000004");
  const auto own = store(2, 6);
  EXPECT_EQ(stop().checkpoint, own);
}

TEST_F(AgentJobTest, OneThatIsStoppedWhereNoCheckpointIsLeftSaysSo) {
  files().create_folders("/runs/job/attempt-1/checkpoints");
  begin(2, "job/attempt-1/checkpoints/step-00000002");
  EXPECT_EQ(stop().outcome, Outcome::stopped);
  EXPECT_EQ(job_->result().checkpoint, kNoCheckpoint);
}

TEST_F(AgentJobTest, OneThatIsStoppedSaysNothingOfACheckpointOnAnotherMachine) {
  begin(2, "job/attempt-1/checkpoints/step-00000002");
  EXPECT_EQ(stop().outcome, Outcome::stopped);
  EXPECT_EQ(job_->result().checkpoint, "");
}

TEST_F(AgentJobTest, ItsLastCheckpointIsItsResultThoughTheStorageFailedWhenItWasNamed) {
  begin(1, "");
  name_checkpoint(store(1, 8));
  const auto last = store(1, 9);
  fail_at("step-00000009");
  name_checkpoint(last);
  say_result();
  disk_.fail_by(nullptr);
  EXPECT_EQ(end({0, 0}).outcome, Outcome::succeeded);
  EXPECT_EQ(job_->result().checkpoint, last);
}

TEST_F(AgentJobTest, ThereIsNoSuccessWhileTheStorageHidesItsLastCheckpoint) {
  begin(1, "");
  name_checkpoint(store(1, 8));
  const auto last = store(1, 9);
  fail_at("step-00000009");
  name_checkpoint(last);
  say_result();
  EXPECT_EQ(end({0, 0}).outcome, Outcome::preempted);
  EXPECT_TRUE(ended_by_storage(job_->result()));
  EXPECT_MESSAGE(testing::first_line(job_->result().error));
}

/// A file server, or a quota, may say only at the end of a file that there is no room.
// Promise storage/disk-full-at-close: a disk that reports only at the end of a file that it is full fails no job and
// loses nothing silently
TEST_F(AgentJobTest, AJobWhoseFilesAreLostWhenTheyAreClosedIsGivenBackAndNeverFails) {
  fail_closing("config.yaml");
  start(1, "");
  EXPECT_EQ(job_->result().outcome, Outcome::preempted);
  EXPECT_TRUE(job_->could_not_start());
  EXPECT_THAT(job_->result().error, HasSubstr("config.yaml"));
}

/// Of a trial that runs a program of the user's own, with the metric val_loss.
class ProgramAttempt : public AgentJobTest {
 protected:
  ProgramAttempt() {
    files().create_folders("/programs");
    files().open("/programs/train", Files::Open::replace)->write("program");
    options_.roots.programs = "/programs";
    spec_.settings = to_settings({"", {"train"}, {}});
    spec_.program = program_key({});
    spec_.metric = "val_loss";
  }
  /// Each second a line, for so long; whether it was killed.
  bool prints(double seconds) {
    for (const double end = stage_.now + seconds; stage_.now < end && !stage_.killed;) {
      stage_.now += 1;
      stage_.output = "batch\n";
      job_->tick(stage_.now);
    }
    return stage_.killed;
  }
  void evaluate(int64_t iteration, const std::map<std::string, double>& metrics) {
    stage_.messages.push_back(
        {.kind = Kind::evaluation, .step = iteration, .iteration = iteration, .metrics = metrics});
    job_->tick(stage_.now);
  }
};

TEST_F(ProgramAttempt, ItsOutputIsASignOfLifeBetweenItsReports) {
  options_.stall_seconds = 60;
  begin(1, "");
  evaluate(1, {{"val_loss", 1.0}});
  EXPECT_FALSE(prints(600)) << "an epoch that is longer than the limit";
  evaluate(2, {{"val_loss", 0.5}});
  EXPECT_FALSE(prints(600));
  // Not for ever: what prints and never gets on hangs as well.
  EXPECT_TRUE(prints(6000));
  EXPECT_EQ(end({137, 9}).outcome, Outcome::error);
  EXPECT_MESSAGE(testing::first_line(job_->result().error), "--stall-seconds");
}

TEST_F(ProgramAttempt, SilenceIsNone) {
  options_.stall_seconds = 60;
  begin(1, "");
  evaluate(1, {{"val_loss", 1.0}});
  for (int i = 0; i < 70; ++i) job_->tick(stage_.now += 1);
  EXPECT_TRUE(stage_.killed);
}

TEST_F(ProgramAttempt, ThatTheKernelKilledForWantOfMemorySaysSo) {
  begin(1, "");
  EXPECT_EQ(end({.code = 137, .signal = 9, .peak_memory_mib = 700, .oom_kills = 2}).outcome, Outcome::error);
  EXPECT_THAT(job_->result().error,
              AllOf(HasSubstr("its largest process had 700 MiB"),
                    HasSubstr("the kernel killed 2 processes of this cgroup for want of memory")));
}

TEST_F(ProgramAttempt, KeepsItsMetricAmongTooManyAndSaysWhatWasLeftOut) {
  begin(1, "");
  ProgressMessage message{.kind = Kind::result, .step = 1};
  for (int i = 0; i < 600; ++i) message.metrics[fmt::format("m{}", i)] = i;
  message.metrics["val_loss"] = 0.25;
  message.invalid_entries = {{"metrics.note", "\"hello\""}};
  stage_.messages.push_back(message);
  EXPECT_EQ(end({0, 0}).outcome, Outcome::succeeded);
  EXPECT_EQ(job_->result().objective, 0.25);
  EXPECT_EQ(job_->result().metrics.size(), kProgressMetrics);
  const auto log = files().read("/runs/job/attempt-1/output.log");
  EXPECT_THAT(log, AllOf(HasSubstr("metrics.note: found \"hello\": left out, expected numbers"),
                         HasSubstr("a message of 601 numbers: 500 of them are kept")));
}

TEST_F(ProgramAttempt, AResultWhoseMetricIsNoNumberIsFinalAndNamesIt) {
  begin(1, "");
  stage_.messages.push_back({.kind = Kind::result, .step = 1, .invalid_entries = {{"metrics.val_loss", "\"0.5\""}}});
  EXPECT_EQ(end({0, 0}).outcome, Outcome::failed);
  EXPECT_MESSAGE(testing::first_line(job_->result().error));
}

// Promise storage/disk-full-at-close
TEST_F(AgentJobTest, AnEvaluationWhoseOutputIsLostWhenItIsClosedIsGivenBackAndCostsNoAttempt) {
  ASSERT_TRUE(queue_.submit(spec_));
  const auto lease = queue_.claim({"before", "token", 2, 0, Milliseconds(1000)}).value();
  queue_.finish(lease, {.outcome = Outcome::succeeded, .checkpoint = store(1, 8)}, 0);
  spec_ = {.id = "measuring", .kind = JobKind::evaluate, .metric = "test/kendall_tau", .after = {"job"}};
  fail_closing("evaluation.json");
  begin(1, "");
  say_result();
  EXPECT_EQ(end({0, 0}).outcome, Outcome::preempted);
  EXPECT_TRUE(ended_by_storage(job_->result())) << "as by exit code 74: it is told, and has a bound";
  EXPECT_MESSAGE(testing::first_line(job_->result().error), "evaluation.json: close");
}

// Promise agents/storage-hangs: storage that hangs stops one job, no other, and no request to stop
TEST_F(AgentJobTest, StorageThatHangsAtItsStartGivesItBackAfterAWhile) {
  stage_.storage_hangs = true;
  start(1, "");
  EXPECT_TRUE(job_->is_starting());
  EXPECT_EQ(job_->next_call(), kNever) << "nothing is to be done until the storage answers";
  EXPECT_EQ(job_->next_timer(), stage_.now + FileWork::kPatience);
  stage_.now += FileWork::kPatience;
  job_->start(queue_, {});
  EXPECT_EQ(job_->result().outcome, Outcome::preempted);
  EXPECT_TRUE(job_->could_not_start());
  EXPECT_MESSAGE(testing::first_line(job_->result().error), "/runs");
}

TEST_F(AgentJobTest, ARequestToStopDoesNotWaitForStorageThatHangs) {
  stage_.storage_hangs = true;
  start(1, "");
  job_->request_stop(StopReason::drain, stage_.now);
  EXPECT_TRUE(job_->ended());
  EXPECT_EQ(job_->result().outcome, Outcome::preempted);
}

// Promise agents/storage-hangs
TEST_F(AgentJobTest, OneWhoseFilesHangAtItsEndIsGivenBackAfterAWhile) {
  begin(1, "");
  say_result();
  stage_.storage_hangs = true;
  EXPECT_NO_FATAL_FAILURE(end({0, 0}));
  EXPECT_FALSE(job_->ended());
  EXPECT_EQ(job_->killed_at(), kNever);
  const auto limit = job_->next_timer();
  EXPECT_LE(limit, stage_.now + FileWork::kPatience);
  stage_.now = limit;
  job_->tick(stage_.now);
  ASSERT_TRUE(job_->ended());
  EXPECT_EQ(job_->result().outcome, Outcome::preempted);
  EXPECT_TRUE(ended_by_storage(job_->result()));
  EXPECT_EQ(job_->result().metrics.at("valid/kendall_tau"), 0.5);
  EXPECT_MESSAGE(testing::first_line(job_->result().error));
}

TEST_F(AgentJobTest, OneWhoseFilesHangIsGivenUpAtASecondRequest) {
  begin(1, "");
  say_result();
  stage_.storage_hangs = true;
  end({0, 0});
  job_->request_stop(StopReason::drain, stage_.now);
  EXPECT_FALSE(job_->ended());
  job_->kill();
  EXPECT_TRUE(job_->ended());
  EXPECT_EQ(job_->result().outcome, Outcome::preempted);
}

TEST_F(AgentJobTest, OneWhoseFilesAnswerLateHasItsResult) {
  begin(1, "");
  const auto last = store(1, 8);
  stage_.storage_hangs = true;
  name_checkpoint(last);
  say_result();
  end({0, 0});
  EXPECT_FALSE(job_->ended());
  stage_.storage_hangs = false;
  for (int turn = 0; turn < 3; ++turn) {
    stage_.beside->wake();
    job_->tick(stage_.now);
  }
  ASSERT_TRUE(job_->ended());
  EXPECT_EQ(job_->result().outcome, Outcome::succeeded);
  EXPECT_EQ(job_->result().checkpoint, last);
}

TEST_F(AgentJobTest, AFailedExitCodeDoesNotWaitForFilesThatHang) {
  begin(1, "");
  stage_.storage_hangs = true;
  end({2, 0});
  stage_.now += FileWork::kPatience + 1;
  job_->tick(stage_.now);
  ASSERT_TRUE(job_->ended());
  EXPECT_EQ(job_->result().outcome, Outcome::failed);
}

}  // namespace
}  // namespace foretime::jobs
