#include "jobs/agent/artifact_uploader.h"

#include <atomic>
#include <thread>

#include <gmock/gmock.h>

#include "tests/jobs/agent/agent_fixture.h"

namespace foretime::jobs {
namespace {

using ::testing::AllOf;
using testing::eventually;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::read_text;

/// A store in memory that can be away, slow or full.
struct SharedStore {
  std::mutex mutex;
  std::map<std::string, std::string> contents;
  std::atomic<bool> away{false}, refuses{false}, hangs{false};
  std::atomic<int> puts{0};
};

class TestStore final : public ArtifactStore {
 public:
  explicit TestStore(SharedStore& shared) : shared_(shared) {}
  std::string address() const override { return "test"; }
  uint64_t largest_file() const override { return 1 << 20; }
  void put(const std::string& name, const std::string& bytes) override {
    ++shared_.puts;
    while (shared_.hangs) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    check();
    const std::lock_guard lock(shared_.mutex);
    shared_.contents[name] = bytes;
  }
  std::optional<std::string> get(const std::string& name, uint64_t) override {
    check();
    const std::lock_guard lock(shared_.mutex);
    const auto found = shared_.contents.find(name);
    return found == shared_.contents.end() ? std::nullopt : std::optional(found->second);
  }
  std::vector<std::string> list(const std::string& job) override {
    const std::lock_guard lock(shared_.mutex);
    std::set<std::string> names;
    for (const auto& [name, bytes] : shared_.contents) {
      if (!name.starts_with(job + "/")) continue;
      const auto begin = job.size() + 1, end = name.find('/', name.find('/', begin) + 1);
      names.insert(name.substr(begin, end - begin));
    }
    return {names.begin(), names.end()};
  }
  void remove(const std::string& folder) override {
    const std::lock_guard lock(shared_.mutex);
    std::erase_if(shared_.contents, [&](const auto& entry) { return entry.first.starts_with(folder + "/"); });
  }

 private:
  void check() const {
    if (shared_.away) throw StoreUnavailable("the store is away");
    if (shared_.refuses) throw StoreRefused("the store refuses");
  }
  SharedStore& shared_;
};

/// Machines that share a queue and a store, and no folder.
class StoredArtifacts : public testing::AgentTest {
 protected:
  StoredArtifacts() {
    options_.store = "test";
    options_.artifacts = [this] {
      auto stores = std::make_shared<ArtifactStores>(nullptr, "unused");
      stores->add(std::make_unique<TestStore>(store_));
      return stores;
    };
  }
  void another_machine() {
    options_.name = "other";
    options_.roots.runs = scratch_.path() / "runs-of-another";
  }
  int64_t stored_step(const std::string& id) {
    const auto known = queue_.artifacts(id);
    const auto found = known.by_role.find("last");
    return found == known.by_role.end() ? -1 : found->second.step;
  }
  /// Runs a job on one machine until something is stored, and has it given back there.
  std::string given_back(const std::string& script = "connect\nresume\nsteps 150 5 10\nresult 0.5\n") {
    const auto id = submit("moving", script);
    auto agent = start_agent();
    EXPECT_TRUE(eventually([&] { return stored_step(id) >= 5; }));
    agent->stop();
    agent->join();
    EXPECT_EQ(job(id).state, JobState::waiting);
    return id;
  }
  std::set<std::string> names() {
    const std::lock_guard lock(store_.mutex);
    std::set<std::string> found;
    for (const auto& [name, bytes] : store_.contents) found.insert(name);
    return found;
  }

  SharedStore store_;
};

// Promise artifacts/job-taken-over: a job that another machine takes over continues from its stored checkpoint
TEST_F(StoredArtifacts, AJobThatIsTakenOverOnAnotherMachineGoesOnFromItsStoredCheckpoint) {
  const auto id = given_back();
  const auto stored = stored_step(id);
  EXPECT_EQ(stored, job(id).step) << "the last checkpoint is stored before the job is given back";
  {
    const std::lock_guard lock(store_.mutex);
    store_.contents[id + "/1-killed/7-step-00000005/model.safetensors"] = "nobody kept it";
  }
  another_machine();
  run_all();
  EXPECT_EQ(job(id).state, JobState::succeeded);
  EXPECT_THAT(log_of(id), HasSubstr("/attempt-2/stored/checkpoints/step-" + std::to_string(stored)));
  EXPECT_THAT(log_of(id), HasSubstr(fmt::format("continues from the stored checkpoint of step {}", stored)));
  EXPECT_EQ(stored_step(id), 150);
  for (const auto& name : names()) EXPECT_THAT(name, AllOf(HasSubstr(id + "/2-"), Not(HasSubstr("step-145/"))));
}

TEST_F(StoredArtifacts, WithoutAStoreNothingIsStoredAndAJobElsewhereBeginsAnew) {
  options_.store.clear();
  const auto id = submit("moving", "connect\nresume\nsteps 150 5 10\nresult 0.5\n");
  auto agent = start_agent();
  EXPECT_TRUE(eventually([&] { return job(id).step >= 10; }));
  agent->stop();
  agent->join();
  another_machine();
  run_all();
  EXPECT_EQ(store_.puts, 0);
  EXPECT_THAT(log_of(id), HasSubstr("resume auto"));
}

TEST_F(StoredArtifacts, AnEvaluationElsewhereFindsTheModel) {
  const auto id = submit("trained", "connect\nsteps 10 5 1\nresult 0.5\n");
  run_all();
  another_machine();
  JobSpec evaluation{.kind = JobKind::evaluate, .name = "evaluation", .settings = "files: []", .after = {id}};
  evaluation.id = job_id(evaluation);
  submit(evaluation);
  run_all();
  EXPECT_EQ(job(evaluation.id).state, JobState::succeeded) << job(evaluation.id).error;
  const auto run = std::filesystem::canonical(options_.roots.runs) / evaluation.id / "attempt-1" / "stored";
  EXPECT_THAT(log_of(evaluation.id), HasSubstr("argument " + run.string()));
  EXPECT_TRUE(std::filesystem::exists(run / "config.yaml"));
  EXPECT_TRUE(std::filesystem::exists(run / "checkpoints/step-10/manifest.json"));
}

TEST_F(StoredArtifacts, ExportsAndFineTunedBundlesAreStoredToo) {
  const auto id = submit("trained", "connect\nsteps 10 5 1\nresult 0.5\n");
  JobSpec exported{.kind = JobKind::export_, .name = "export", .after = {id}};
  exported.id = job_id(exported);
  submit(exported);
  run_all();
  const auto known = queue_.artifacts(exported.id);
  ASSERT_TRUE(known.by_role.contains("last"));
  EXPECT_EQ(known.by_role.at("last").path, "export");
  EXPECT_TRUE(known.by_role.at("last").files.contains("export/manifest.json"));
}

// Promise artifacts/store-slow: a slow, unreachable or full store disturbs no job; the job reports that nothing is
// stored
TEST_F(StoredArtifacts, ASlowStoreHoldsUpNoJobAndTheNewestCheckpointWins) {
  store_.hangs = true;
  const auto id = submit("quick", "connect\nsteps 60 5 5\nresult 0.5\n");
  auto agent = start_agent();
  EXPECT_TRUE(reaches(id, [](const auto& record) { return record.step >= 60; })) << "the store hangs, the job does not";
  EXPECT_EQ(job(id).state, JobState::active) << "its end waits for its checkpoint";
  EXPECT_EQ(store_.puts, 1);
  store_.hangs = false;
  agent->join();
  EXPECT_EQ(job(id).state, JobState::succeeded);
  EXPECT_EQ(stored_step(id), 60);
  EXPECT_LT(store_.puts, 12) << "of those in between most were passed over";
}

// Promise artifacts/store-slow
TEST_F(StoredArtifacts, AStoreThatIsAwayForAWhileIsTriedAgain) {
  testing::FastWorld fast(10);
  world_ = &fast;
  store_.away = true;
  const auto id = submit("away", "connect\nsteps 20 5 5\nresult 0.5\n");
  auto agent = start_agent();
  EXPECT_TRUE(eventually([&] { return queue_.artifacts(id).trouble == "the store is away"; }));
  store_.away = false;
  agent->join();
  EXPECT_EQ(job(id).state, JobState::succeeded);
  EXPECT_EQ(stored_step(id), 20);
  EXPECT_EQ(queue_.artifacts(id).trouble, "");
}

TEST_F(StoredArtifacts, AJobEndsWellWhereTheStoreStaysAwayAndItsRecordSaysSo) {
  testing::FastWorld fast(100);
  world_ = &fast;
  store_.away = true;
  const auto id = submit("away", "connect\nsteps 20 5 1\nresult 0.5\n");
  run_all();
  EXPECT_EQ(job(id).state, JobState::succeeded);
  EXPECT_EQ(queue_.artifacts(id).trouble, "the store is away");
  EXPECT_EQ(stored_step(id), -1);
}

TEST_F(StoredArtifacts, AStoreThatRefusesIsNamedInTheLogAndTheJobGoesOn) {
  store_.refuses = true;
  const auto id = submit("refused", "connect\nsteps 40 5 20\nresult 0.5\n");
  run_all();
  EXPECT_EQ(job(id).state, JobState::succeeded);
  EXPECT_EQ(queue_.artifacts(id).trouble, "the store refuses");
  EXPECT_THAT(log_of(id), HasSubstr("not stored: the store refuses"));
}

/// How an attempt is kept from its stored checkpoint.
class UnreachedArtifacts : public StoredArtifacts, public ::testing::WithParamInterface<std::string> {
 protected:
  void keep_away(bool away) { (GetParam() == "StoreIsAway" ? store_.away : faults_.refuses_artifacts) = away; }
};

INSTANTIATE_TEST_SUITE_P(Reasons, UnreachedArtifacts, ::testing::Values("StoreIsAway", "RedisDeniesThem"),
                         [](const auto& test) { return test.param; });

// Promise artifacts/store-unreachable: a job whose store cannot be reached is given back, not started from zero
TEST_P(UnreachedArtifacts, AJobIsGivenBackRatherThanBegunAgain) {
  const auto id = given_back();
  testing::FastWorld fast(100);
  world_ = &fast;
  another_machine();
  keep_away(true);
  auto agent = start_agent();
  EXPECT_TRUE(eventually([&] {
    for (const auto& event : queue_.events())
      if (event.event == "preempt" && event.job == id && event.fence == 2) return true;
    return false;
  }));
  EXPECT_EQ(job(id).failures, 0);
  keep_away(false);
  agent->join();
  EXPECT_EQ(job(id).state, JobState::succeeded);
  EXPECT_THAT(log_of(id), AllOf(HasSubstr("/stored/checkpoints/step-"), Not(HasSubstr("resume auto\nresume auto"))));
}

// Promise artifacts/damaged
TEST_F(StoredArtifacts, ADamagedCheckpointIsNeverUsed) {
  const auto id = given_back();
  {
    const std::lock_guard lock(store_.mutex);
    for (auto& [name, bytes] : store_.contents)
      if (name.ends_with("manifest.json")) bytes = "[]";
  }
  another_machine();
  run_all();
  EXPECT_EQ(job(id).state, JobState::succeeded);
  EXPECT_THAT(log_of(id), AllOf(HasSubstr("damaged: its SHA-256 is not the recorded one"), Not(HasSubstr("/stored/"))));
}

TEST_F(StoredArtifacts, ArtifactsOfForgottenJobsAreRemovedFromTheStore) {
  testing::FastWorld fast(50);
  world_ = &fast;
  options_.stall_seconds = 6000;
  const auto id = submit("first", "connect\nsteps 10 5 1\nresult 0.5\n");
  run_all();
  EXPECT_FALSE(names().empty());
  queue_.set_now_ms(queue_.now_ms() + 40LL * 24 * 3600 * 1000);
  for (int i = 0; i < 4000 && queue_.find(id); ++i) {  // the clock is trusted in steps
    queue_.advance(Milliseconds(60'000));
    queue_.reap();
  }
  ASSERT_FALSE(queue_.find(id));
  submit("second", "connect\nsleep 3000\nresult 0.5\n");
  run_all();
  for (const auto& name : names()) EXPECT_THAT(name, Not(HasSubstr(id)));
}

}  // namespace
}  // namespace foretime::jobs
