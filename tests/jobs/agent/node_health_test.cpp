// A machine that fails jobs: it takes itself out, and its jobs lose nothing.

#include "jobs/agent/node_health.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>
#include <optional>

#include <gmock/gmock.h>
#include <sched.h>
#include <spdlog/sinks/null_sink.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/error.h"
#include "base/process.h"
#include "jobs/sweep/program_trial.h"
#include "tests/jobs/agent/agent_fixture.h"
#include "tests/simulation/simulated_files.h"
#include "tests/support/golden.h"

namespace foretime::jobs {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Answer = NodeHealth::Answer;

/// Time that stands still, and steps beside that run when they are woken; a hanging one does not.
class StillWorld final : public World {
 public:
  double steady_seconds() override { return now; }
  uint64_t random_bits() override { return uint64_t{1} << 63; }
  std::unique_ptr<RunningCommand> start(SupervisedProcess::Options, const fs::path&) override { return nullptr; }
  std::unique_ptr<Background> run_beside(std::function<double()> step) override {
    struct Beside final : Background {
      Beside(StillWorld& world, std::function<double()> step) : world_(world), step_(std::move(step)) {}
      void wake() override {
        if (world_.hangs) return;
        while (step_() == 0) continue;
      }
      StillWorld& world_;
      std::function<double()> step_;
    };
    auto beside = std::make_unique<Beside>(*this, std::move(step));
    wake = [beside = beside.get()] { beside->wake(); };
    return beside;
  }
  std::unique_ptr<Waiter> make_waiter() override { return nullptr; }

  double now = 1000;
  bool hangs = false;
  std::function<void()> wake;
};

class NodeHealthTest : public ::testing::Test {
 protected:
  NodeHealthTest() : scope_(disk_), log_("health", std::make_shared<spdlog::sinks::null_sink_mt>()) {
    files().create_folders("/runs");
    files().create_folders("/data");
    files().open("/data/C1.npz", Files::Open::replace)->write("group");
    health_.emplace(
        "agent", AllowedRoots{{"/data"}, "/runs"}, 3, [] {}, world_, log_);
    // A look is asked for by the first call, and its answer is there at the next.
    may_claim();
    EXPECT_TRUE(may_claim());
  }
  bool may_claim() { return health_->may_claim(world_.now); }
  Answer check() {
    world_.now += 1;
    const double since = world_.now;
    health_->checked_since(since, world_.now);
    return health_->checked_since(since, world_.now);
  }
  /// Until the machine may claim; seconds.
  double pause() {
    const double from = world_.now;
    while (!may_claim()) world_.now += 0.5;
    return world_.now - from;
  }
  void fail(const std::string& job, int exit_code = 1, double seconds = 0.5, const std::string& failed_on = "") {
    const auto outcome = exit_code == kUsage || exit_code == kData ? Outcome::failed
                         : exit_code == kStorage                   ? Outcome::preempted
                                                                   : Outcome::error;
    health_->ended({.job = job, .agent = "agent", .failed_on = failed_on},
                   {.outcome = outcome,
                    .error = "exit code\nlog",
                    .exit_code = exit_code,
                    .seconds = seconds,
                    .unasked = outcome == Outcome::preempted},
                   world_.now);
  }

  simulation::SimulatedFiles disk_;
  FilesScope scope_;
  StillWorld world_;
  spdlog::logger log_;
  std::optional<NodeHealth> health_;
};

TEST_F(NodeHealthTest, ALookLeavesNothingBehind) {
  EXPECT_EQ(check(), Answer::well);
  EXPECT_EQ(disk_.contents().size(), 1U);
}

TEST_F(NodeHealthTest, ARunRootThatCannotBeWrittenAndAMissingMountAreTrouble) {
  for (const int error : {ENOSPC, EROFS, EIO, EDQUOT, ESTALE}) {
    disk_.fail_by([&](const char* operation, const fs::path& path, size_t) {
      return path.string().starts_with("/runs/") && std::string_view(operation) == "write" ? error : 0;
    });
    EXPECT_EQ(check(), Answer::trouble);
    EXPECT_FALSE(may_claim());
    EXPECT_THAT(health_->trouble(), AllOf(HasSubstr("run root /runs"), HasSubstr(std::strerror(error))));
    disk_.fail_by(nullptr);
    EXPECT_EQ(check(), Answer::well);
    EXPECT_THAT(health_->trouble(), IsEmpty());
  }
  files().remove("/data/C1.npz");
  EXPECT_EQ(check(), Answer::trouble);
  EXPECT_MESSAGE(health_->trouble(), "data root /data");
  files().remove("/data");
  EXPECT_EQ(check(), Answer::trouble);
  EXPECT_MESSAGE(health_->trouble(), "data root /data");
}

TEST_F(NodeHealthTest, AFolderOfProgramsThatIsNotMountedIsTrouble) {
  AllowedRoots roots{{"/data"}, "/runs"};
  EXPECT_THAT(find_trouble(files(), roots), IsEmpty()) << "no programs are run here";
  roots.programs = "/programs";
  EXPECT_MESSAGE(find_trouble(files(), roots), "programs root /programs");
  files().create_folders("/programs");
  EXPECT_MESSAGE(find_trouble(files(), roots), "programs root /programs");
  files().open("/programs/train.py", Files::Open::replace)->write("print()");
  EXPECT_THAT(find_trouble(files(), roots), IsEmpty());
  disk_.fail_by([](const char*, const fs::path& path, size_t) { return path == "/programs" ? ESTALE : 0; });
  EXPECT_THAT(find_trouble(files(), roots), AllOf(HasSubstr("programs root"), HasSubstr(std::strerror(ESTALE))));
}

TEST_F(NodeHealthTest, PausesGrowUntilTheMachineIsWell) {
  disk_.fail_by(
      [](const char* operation, const auto&, size_t) { return std::string_view(operation) == "write" ? EROFS : 0; });
  EXPECT_EQ(check(), Answer::trouble);
  int looks = 0;
  const double from = world_.now;
  for (auto before = disk_.operations(); world_.now < from + 3600; world_.now += 1) {
    EXPECT_FALSE(may_claim());
    looks += disk_.operations() != before ? 1 : 0;
    before = disk_.operations();
  }
  EXPECT_GE(looks, 10);
  EXPECT_LE(looks, 25);
  disk_.fail_by(nullptr);
  EXPECT_LE(pause(), 1.25 * NodeHealth::kLongestPause + 1);
}

TEST_F(NodeHealthTest, StorageThatHangsIsTroubleAndDoesNotHoldUpWhoeverAsks) {
  world_.hangs = true;
  const double since = world_.now + 1;
  world_.now = since;
  EXPECT_EQ(health_->checked_since(since, world_.now), Answer::wait);
  world_.now += NodeHealth::kHangs + 1;
  EXPECT_EQ(health_->checked_since(since, world_.now), Answer::trouble);
  EXPECT_MESSAGE(health_->trouble());
  world_.hangs = false;
  world_.wake();
  EXPECT_LE(pause(), 60);
  EXPECT_THAT(health_->trouble(), IsEmpty());
}

TEST_F(NodeHealthTest, DifferentJobsThatFailAtOnceStopClaimingThenOneIsTried) {
  fail("a");
  fail("a");
  fail("a");
  EXPECT_TRUE(may_claim()) << "a job that fails again and again says nothing about the machine";
  fail("settings", kUsage);
  fail("b");
  EXPECT_TRUE(may_claim());
  fail("c", kData);
  EXPECT_FALSE(may_claim());
  EXPECT_THAT(health_->trouble(),
              AllOf(HasSubstr("3 jobs in a row"), HasSubstr("c: exit code"), Not(HasSubstr("log"))));
  const double first = pause();
  EXPECT_GE(first, NodeHealth::kFirstPause * 0.75);
  health_->claimed("d", world_.now);
  EXPECT_FALSE(may_claim()) << "one only";
  fail("d");
  EXPECT_GE(pause(), 1.5 * first) << "the pause grows";
  health_->claimed("settings", world_.now);
  fail("settings", kUsage);
  EXPECT_TRUE(may_claim()) << "it tells nothing, and another one is tried";
  health_->claimed("e", world_.now);
  health_->ended({.job = "e", .agent = "agent"}, {.outcome = Outcome::succeeded, .seconds = 0.5}, world_.now);
  EXPECT_TRUE(may_claim());
  EXPECT_THAT(health_->trouble(), IsEmpty());
  fail("a");
  fail("b");
  EXPECT_TRUE(may_claim()) << "counted anew";
}

TEST_F(NodeHealthTest, AJobThatIsTriedAndRunsForAWhileEndsThePause) {
  for (const auto* job : {"a", "b", "c"})
    fail(job, kStorage, 3600);  // a failure of the storage counts whenever it comes
  pause();
  health_->claimed("d", world_.now);
  EXPECT_FALSE(may_claim());
  world_.now += NodeHealth::kSoon;
  EXPECT_TRUE(may_claim());
  EXPECT_THAT(health_->trouble(), IsEmpty());
}

TEST_F(NodeHealthTest, AFailureOfTheStorageIsTheMachinesAlthoughItCostsTheJobNoAttempt) {
  for (const auto* job : {"a", "b", "c"}) fail(job, kStorage, 3600);
  EXPECT_FALSE(may_claim());
  EXPECT_EQ(health_->blamed_jobs().size(), 3U);
  for (const auto* job : {"a", "b"}) health_->update_failures(job, 0);
  EXPECT_EQ(health_->blamed_jobs().size(), 3U) << "no other agent has seen them fail";
  for (const auto* job : {"a", "b"}) health_->update_failures(job, 1);
  EXPECT_TRUE(may_claim());
  // Preemptions by somebody else tell nothing.
  for (const auto* job : {"d", "e", "f"})
    health_->ended({.job = job, .agent = "agent"},
                   {.outcome = Outcome::preempted, .exit_code = kPreempted, .seconds = 0.5, .unasked = true},
                   world_.now);
  EXPECT_TRUE(may_claim());
}

TEST_F(NodeHealthTest, JobsThatFailedOnAnotherAgentFirstSayNothingAboutThisMachine) {
  for (const auto* job : {"a", "b", "c", "d"}) fail(job, 1, 0.5, "other");
  EXPECT_TRUE(may_claim());
  for (const auto* job : {"a", "b", "c"}) fail(job, 1, 0.5, "agent");
  EXPECT_FALSE(may_claim()) << "these failed here alone";
  pause();
  for (const auto* job : {"d", "e"}) {
    health_->claimed(job, world_.now);
    fail(job, 1, 0.5, "other");
    EXPECT_TRUE(may_claim()) << "another one is tried, at once";
  }
  health_->claimed("f", world_.now);
  fail("f", kStorage, 0.5, "other");
  EXPECT_FALSE(may_claim()) << "two machines may have lost the same storage";
}

TEST_F(NodeHealthTest, JobsThatFailedHereFirstAndThenElsewhereTooEndThePause) {
  for (const auto* job : {"a", "b", "c"}) fail(job);
  EXPECT_FALSE(may_claim());
  EXPECT_EQ(health_->blamed_jobs(), (std::vector<std::string>{"a", "b", "c"}));
  health_->update_failures("a", 1);
  health_->update_failures("nobody", 9);
  EXPECT_EQ(health_->blamed_jobs().size(), 3U) << "one failure was here";
  health_->update_failures("a", 2);
  EXPECT_EQ(health_->blamed_jobs(), (std::vector<std::string>{"b", "c"}));
  EXPECT_FALSE(may_claim()) << "fewer than half";
  health_->update_failures("b", 2);
  EXPECT_TRUE(may_claim());
  EXPECT_THAT(health_->trouble(), IsEmpty());
  EXPECT_THAT(health_->blamed_jobs(), IsEmpty());
  // What failed here, then elsewhere, then here again says so by its attempts.
  fail("a");
  fail("b");
  health_->ended({.job = "a", .agent = "agent", .attempt = 3, .failed_on = "agent"},
                 {.outcome = Outcome::error, .exit_code = 1, .seconds = 0.5}, world_.now);
  fail("c");
  EXPECT_TRUE(may_claim()) << "two of them count";
  fail("d");
  EXPECT_FALSE(may_claim());
}

TEST_F(NodeHealthTest, StorageThatFailsIsNotAcquittedByJobs) {
  for (const auto* job : {"a", "b", "c"}) fail(job);
  disk_.fail_by([](const char*, const fs::path&, size_t) { return EROFS; });
  EXPECT_EQ(check(), Answer::trouble);
  EXPECT_THAT(health_->blamed_jobs(), IsEmpty());
  health_->update_failures("a", 5);
  health_->update_failures("b", 5);
  EXPECT_FALSE(may_claim());
}

TEST_F(NodeHealthTest, FailuresAfterALongTimeAreTheJobsOwn) {
  for (const auto* job : {"a", "b", "c", "d"}) fail(job, 1, 60);
  EXPECT_TRUE(may_claim());
}

TEST_F(NodeHealthTest, AMachineThatStartsNothingPausesWhateverTheJob) {
  for (int i = 0; i < 3; ++i) health_->could_not_start("a", "cannot start foretime: fork: no memory", world_.now);
  EXPECT_FALSE(may_claim());
  EXPECT_THAT(health_->trouble(), HasSubstr("fork"));
}

TEST(HangingStorage, DoesNotKeepAnAgentFromEnding) {
  // A thread that still hangs outlives this test: what it uses is never destroyed.
  static auto& disk = *new simulation::SimulatedFiles;
  static std::promise<void> returns;
  static const auto returned = returns.get_future().share();
  static std::atomic<bool> hangs{false};
  FilesScope scope(disk);
  disk.fail_by([](const char*, const fs::path&, size_t) {
    hangs = true;
    returned.wait();
    return EIO;
  });
  spdlog::logger log("health", std::make_shared<spdlog::sinks::null_sink_mt>());
  std::atomic<int> woken{0};
  {
    NodeHealth health(
        "agent", AllowedRoots{{"/data"}, "/runs"}, 3, [&woken] { ++woken; }, real_world(), log);
    EXPECT_FALSE(health.may_claim(real_world().steady_seconds()));
    ASSERT_TRUE(testing::eventually([] { return hangs.load(); }));
  }
  EXPECT_EQ(woken, 0) << "who is gone is not woken";
  returns.set_value();
}

using BrokenNode = testing::AgentTest;

/// A folder that stands for a mount: `there` puts it in place, or leaves an empty mount point.
void mount(const fs::path& point, bool there) {
  const auto aside = point.string() + ".unmounted";
  if (there == !fs::exists(aside)) return;
  if (there) {
    fs::remove(point);
    fs::rename(aside, point);
  } else {
    fs::rename(point, aside);
    fs::create_directory(point);
  }
}

// Promise agents/machine-broken: a machine that fails jobs withdraws itself and drains no queue
TEST_F(BrokenNode, AMissingDataMountKillsNoJobAndAHealthyAgentFinishesAll) {
  // Both see the same queue; the broken one's data root is a mount point without its mount.
  const auto broken_data = scratch_.path() / "mount";
  fs::create_directories(broken_data);
  std::ofstream(broken_data / "there") << "x";
  std::vector<std::string> ids;
  for (int i = 0; i < 40; ++i) ids.push_back(submit(fmt::format("job{}", i), "connect\nresult 1\n"));
  options_.name = "broken";
  options_.lease_term = Milliseconds(600);
  options_.roots.data = {broken_data};
  options_.until_empty = false;
  mount(broken_data, false);
  const auto broken = start_agent();
  ASSERT_TRUE(testing::eventually([&] { return broken->log().find("claims no jobs") != std::string::npos; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  for (const auto& id : ids) EXPECT_EQ(job(id).state, JobState::waiting);
  EXPECT_TRUE(testing::eventually([&] {
    return queue_.dump()["agent:broken"]["trouble"].find("is empty; is it mounted?") != std::string::npos;
  })) << "for foretime status";

  options_.name = "healthy";
  options_.roots.data = {data_};
  options_.until_empty = true;
  EXPECT_EQ(start_agent()->join(), 40);
  for (const auto& id : ids) {
    EXPECT_EQ(job(id).state, JobState::succeeded);
    EXPECT_EQ(job(id).failures, 0);
    EXPECT_EQ(job(id).agent, "healthy");
  }
  broken->stop();
  EXPECT_EQ(broken->join(), 0);
}

TEST_F(BrokenNode, AMissingMountOfProgramsKillsNoTrialAndAHealthyAgentFinishesAll) {
  const auto programs = scratch_.path() / "programs", mounted = scratch_.path() / "mounted";
  for (const auto& folder : {programs, mounted}) {
    fs::create_directories(folder);
    std::ofstream(folder / "train.sh") << "run=$(dirname \"$FORETIME_TRIAL\")\n"
                                          "mkdir -p $run/checkpoints/step-00000001\n"
                                          "echo '{}' > $run/checkpoints/step-00000001/manifest.json\n"
                                          "echo '{\"kind\":\"final\",\"step\":1,\"loss\":1}' > $run/metrics.jsonl\n";
  }
  std::vector<std::string> ids;
  for (int i = 0; i < 40; ++i) {
    JobSpec spec{.kind = JobKind::train,
                 .name = fmt::format("trial{}", i),
                 .settings = to_settings({"train.sh", {"/bin/sh", "${program}"}, {}}),
                 .parameters = {{"seed", fmt::to_string(i)}}};
    spec.id = job_id(spec);
    ids.push_back(submit(spec));
  }
  options_.name = "broken";
  options_.until_empty = false;
  options_.roots.programs = programs;
  mount(programs, false);
  const auto broken = start_agent();
  ASSERT_TRUE(testing::eventually([&] { return broken->log().find("claims no jobs") != std::string::npos; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  for (const auto& id : ids) EXPECT_EQ(job(id).state, JobState::waiting) << job(id).error;

  options_.name = "healthy";
  options_.until_empty = true;
  options_.roots.programs = mounted;
  EXPECT_EQ(start_agent()->join(), 40);
  for (const auto& id : ids) {
    EXPECT_EQ(job(id).state, JobState::succeeded) << job(id).error;
    EXPECT_EQ(job(id).agent, "healthy");
  }
  broken->stop();
  EXPECT_EQ(broken->join(), 0);
}

TEST_F(BrokenNode, AMountThatIsLostWhileAJobRunsCostsItNoAttempt) {
  // Without its data a trial ends with exit code 3, which would be the end of the job.
  const auto id = submit("late", "once mark sleep 300\nonce mark2 exit 3\nconnect\nresult 1\n");
  options_.until_empty = false;
  const auto agent = start_agent();
  ASSERT_TRUE(testing::eventually([&] { return fs::exists(runs_ / id / "mark"); }));
  mount(data_, false);
  ASSERT_TRUE(reaches(id, [](const JobRecord& record) { return record.state == JobState::waiting; }));
  EXPECT_EQ(job(id).failures, 0);
  EXPECT_MESSAGE(testing::first_line(job(id).error));
  EXPECT_THAT(log_of(id), HasSubstr("given back"));
  mount(data_, true);
  EXPECT_TRUE(reaches(id, [](const JobRecord& record) { return record.state == JobState::succeeded; }));
  EXPECT_EQ(job(id).attempt, 1);
  agent->stop();
  agent->join();
}

TEST_F(BrokenNode, ARefusalWhileTheMachineIsInTroubleEndsNoAgent) {
  const auto id = submit("late", "once mark unmount\nonce mark2 exit 3\nconnect\nresult 1\n");
  testing::FastWorld world(5);
  world_ = &world;
  faults_.refuses_looks = true;
  const auto agent = start_agent();  // until the queue is empty
  EXPECT_TRUE(testing::eventually([&] { return agent->log().find("NOPERM") != std::string::npos; })) << agent->log();
  faults_.refuses_looks = false;
  mount(data_, true);
  EXPECT_EQ(agent->join(), 1) << agent->error();
  EXPECT_EQ(job(id).state, JobState::succeeded);
}

class FragileNode : public testing::AgentTest {
 protected:
  FragileNode() : AgentTest({.backoff_base = Milliseconds(20), .most_preemptions = 2}) {}
};

TEST_F(FragileNode, AJobThatBreaksItsMachineIsNotGivenBackForEver) {
  const auto id = submit("breaker", "unmount\nexit 74\n");
  testing::FastWorld world(10);
  world_ = &world;
  options_.until_empty = false;
  const auto agent = start_agent();
  EXPECT_TRUE(testing::eventually([&] {
    const auto state = job(id).state;
    if (state != JobState::active) mount(data_, true);  // somebody makes room again and again
    return is_final(state);
  }));
  EXPECT_EQ(job(id).state, JobState::dead);
  EXPECT_EQ(job(id).failures, 0);
  EXPECT_EQ(job(id).fence, 2);
  EXPECT_MESSAGE(job(id).reason);
}

TEST_F(FragileNode, AJobWhoseStorageFailsEachTimeHasAnEnd) {
  auto spec = trial("large", "print no room\nexit 74\n");
  spec.max_attempts = 1;
  submit(spec);
  run_all();
  EXPECT_EQ(job(spec.id).state, JobState::dead);
  EXPECT_EQ(job(spec.id).failures, 0);
  EXPECT_EQ(job(spec.id).fence, 2);
  EXPECT_MESSAGE(job(spec.id).reason);
  EXPECT_THAT(job(spec.id).error, AllOf(HasSubstr("exit code 74"), HasSubstr("no room")));
}

/// Otherwise a sweep of hundreds of trials that always crash stops all agents, one trial for each pause.
TEST_F(BrokenNode, TwoAgentsEndALongSweepOfBadTrialsAndThenDoWhatIsSound) {
  std::vector<std::string> bad;
  for (int i = 0; i < 16; ++i) bad.push_back(submit(fmt::format("bad{}", i), "exit 1\n"));
  const auto sound = submit("sound", "connect\nresult 1\n");
  testing::FastWorld world(4);
  world_ = &world;
  options_.most_failures = 3;
  options_.name = "one";
  const auto one = start_agent();
  options_.name = "two";
  const auto two = start_agent();
  EXPECT_TRUE(testing::eventually([&] {
    return std::all_of(bad.begin(), bad.end(), [&](const auto& id) { return job(id).state == JobState::dead; });
  })) << one->log();
  EXPECT_TRUE(reaches(sound, [](const JobRecord& record) { return record.state == JobState::succeeded; }));
  EXPECT_THAT(one->log() + two->log(), HasSubstr("failed on others too: claims jobs again"));
}

/// A read-only file system at `folder` while it lives, of this thread and those that it starts; where that is not
/// allowed, a folder without the right to write.
class ReadOnly {
 public:
  explicit ReadOnly(const fs::path& folder) : folder_(folder) {
    mounted_ = unshare(CLONE_NEWNS) == 0 && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
               ::mount("tmpfs", folder.c_str(), "tmpfs", MS_RDONLY, "size=1m") == 0;
    if (!mounted_) fs::permissions(folder, fs::perms::owner_read | fs::perms::owner_exec);
  }
  ~ReadOnly() {
    end();
    if (mounted_) umount2(folder_.c_str(), MNT_DETACH);
  }
  ReadOnly(const ReadOnly&) = delete;
  ReadOnly& operator=(const ReadOnly&) = delete;
  bool holds() const { return mounted_ || geteuid() != 0; }
  bool mounted() const { return mounted_; }
  void end() {
    if (mounted_) ::mount("tmpfs", folder_.c_str(), "tmpfs", MS_REMOUNT, "size=16m");
    if (!mounted_) fs::permissions(folder_, fs::perms::owner_all);
  }

 private:
  fs::path folder_;
  bool mounted_ = false;
};

// Promise agents/machine-broken
TEST_F(BrokenNode, AReadOnlyRunRootDrainsNoQueue) {
  std::vector<std::string> ids;
  for (int i = 0; i < 40; ++i) ids.push_back(submit(fmt::format("job{}", i), "connect\nresult 1\n"));
  options_.name = "broken";
  options_.until_empty = false;
  options_.roots.runs = scratch_.path() / "broken";
  fs::create_directories(options_.roots.runs);
  ReadOnly broken_runs(options_.roots.runs);
  if (!broken_runs.holds()) GTEST_SKIP() << "needs the right to mount a file system";
  const auto broken = start_agent();
  ASSERT_TRUE(testing::eventually([&] { return broken->log().find("claims no jobs") != std::string::npos; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  for (const auto& id : ids) EXPECT_EQ(job(id).state, JobState::waiting);
  if (broken_runs.mounted()) {
    EXPECT_THAT(broken->log(), HasSubstr("Read-only file system"));
  }

  options_.name = "healthy";
  options_.until_empty = true;
  options_.roots.runs = runs_;
  EXPECT_EQ(start_agent()->join(), 40);
  for (const auto& id : ids) {
    EXPECT_EQ(job(id).state, JobState::succeeded);
    EXPECT_EQ(job(id).failures, 0);
    EXPECT_EQ(job(id).agent, "healthy");
  }
  // Once it may be written, the other one works again.
  broken_runs.end();
  const auto last = submit("last", "connect\nresult 1\n");
  EXPECT_TRUE(reaches(last, [](const JobRecord& record) { return record.state == JobState::succeeded; }));
  EXPECT_EQ(job(last).agent, "broken");
  broken->stop();
  broken->join();
}

}  // namespace
}  // namespace foretime::jobs
