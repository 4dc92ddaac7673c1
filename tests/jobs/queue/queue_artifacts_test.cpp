#include <gmock/gmock.h>

#include "jobs/artifacts/artifact_store.h"
#include "tests/jobs/queue/queue_contract.h"

namespace foretime::jobs {
namespace {

using ::testing::ElementsAre;
using Answer = KeptArtifact::Answer;

constexpr const char* kElsewhere = "folder:/shared";

Artifact artifact_named(const std::string& name, const std::string& store = kElsewhere, uint64_t bytes = 100) {
  return {.name = name,
          .store = store,
          .path = "checkpoints/step-00000010",
          .step = 10,
          .files = {{"checkpoints/step-00000010/model.safetensors", {bytes, std::string(64, 'a')}}}};
}

class QueueArtifacts : public QueueContract {
 protected:
  std::string role(const std::string& job, const std::string& role) {
    const auto known = queue().artifacts(job);
    const auto found = known.by_role.find(role);
    return found == known.by_role.end() ? "" : found->second.name;
  }
  /// As a store does before the queue is asked to keep them.
  void store_parts(const std::string& job, const Artifact& artifact) {
    auto* backend = dynamic_cast<RedisBackend*>(backend_.get());
    if (backend == nullptr) return;
    for (const auto& [file, stored] : artifact.files)
      for (const auto& key : redis_part_keys(job + "/" + artifact.name + "/" + file, stored.bytes))
        backend->client().call({"SET", backend->key(key), "x", "PX", "600000"});
  }
  KeptArtifact store_in_redis(const Lease& lease, const Artifact& artifact, const std::vector<std::string>& roles,
                              bool ended = false) {
    if (auto room = queue().may_store(lease, artifact, roles); room.answer != Answer::kept) return room;
    store_parts(lease.job, artifact);
    return queue().keep(lease, artifact, roles, ended);
  }
  std::set<std::string> parts() {
    std::set<std::string> found;
    for (const auto& [key, fields] : backend_->dump())
      if (key.starts_with("artifact:")) found.insert(key);
    return found;
  }
};

TEST_P(QueueArtifacts, TheLastAndTheBestAreKeptAndOthersDropped) {
  const auto lease = leased("j");
  EXPECT_EQ(queue().keep(lease, artifact_named("1-t/1"), {"last", "best"}, false).answer, Answer::kept);
  EXPECT_THAT(queue().keep(lease, artifact_named("1-t/2"), {"last"}, false).dropped, ElementsAre());
  EXPECT_EQ(role("j", "best"), "1-t/1");
  EXPECT_THAT(queue().keep(lease, artifact_named("1-t/3"), {"last"}, false).dropped, ElementsAre("1-t/2"));
  EXPECT_THAT(queue().keep(lease, artifact_named("1-t/4"), {"best"}, false).dropped, ElementsAre("1-t/1"));
  const auto known = queue().artifacts("j");
  EXPECT_EQ(known.by_role.at("last"), artifact_named("1-t/3"));
  EXPECT_EQ(known.by_role.at("best"), artifact_named("1-t/4"));
  // What has succeeded is not gone on from.
  EXPECT_THAT(queue().keep(lease, artifact_named("1-t/5"), {"run"}, true).dropped, ElementsAre("1-t/3"));
  EXPECT_EQ(role("j", "last"), "1-t/4");
  EXPECT_EQ(role("j", "run"), "1-t/5");
}

// Promise artifacts/lease-lost: an agent that lost its lease replaces nothing that a newer attempt has stored
TEST_P(QueueArtifacts, AnAgentThatLostItsLeaseReplacesNothingThatTheNewerAttemptHasStored) {
  const auto old = leased("j");
  queue().keep(old, artifact_named("1-t/1"), {"last", "best"}, false);
  for (int i = 0; i < 2; ++i) {  // the first term was nobody's fault
    advance(31'000);
    queue().reap();
  }
  const auto fresh = claim("b").value();
  EXPECT_EQ(role("j", "last"), "1-t/1") << "until the new attempt has one of its own";
  EXPECT_EQ(queue().keep(fresh, artifact_named("2-u/1"), {"last", "best"}, false).answer, Answer::kept);
  EXPECT_EQ(queue().may_store(old, artifact_named("1-t/2"), {"last"}).answer, Answer::lost);
  EXPECT_EQ(queue().keep(old, artifact_named("1-t/2"), {"last"}, false).answer, Answer::lost);
  if (auto* backend = dynamic_cast<RedisBackend*>(backend_.get())) {
    const auto newest = backend->client().call({"XREVRANGE", backend->key("events"), "+", "-", "COUNT", "1"});
    ASSERT_EQ(newest->elements, 1U);
    const auto told = texts_of(*newest->element[0]->element[1]);
    EXPECT_THAT(told, ::testing::IsSupersetOf({std::string("refuse"), old.job, old.agent})) << "whose write it was";
  }
  queue().note_trouble_of_artifacts(old, "a full disk of somebody else");
  EXPECT_EQ(role("j", "last"), "2-u/1");
  EXPECT_EQ(queue().artifacts("j").trouble, "");
}

// Promise artifacts/redis-memory: checkpoints leave Redis' memory to the jobs
TEST_P(QueueArtifacts, TheQuotaOfRedisCountsAllJobsAndWhatIsReplacedOnce) {
  make({.artifact_bytes = 250});
  const auto a = leased("a"), b = leased("b");
  EXPECT_EQ(store_in_redis(a, artifact_named("1-t/1", "redis"), {"last", "best"}).answer, Answer::kept);
  EXPECT_EQ(store_in_redis(b, artifact_named("1-u/1", "redis"), {"last"}).answer, Answer::kept);
  const auto full = store_in_redis(a, artifact_named("1-t/2", "redis"), {"last"});
  EXPECT_EQ(full.answer, Answer::full);
  EXPECT_EQ(full.used, 200U);
  EXPECT_EQ(full.quota, 250U);
  EXPECT_EQ(role("a", "last"), "1-t/1") << "what there was stays";
  EXPECT_EQ(store_in_redis(b, artifact_named("1-u/2", "redis", 150), {"last"}).answer, Answer::kept);
  EXPECT_EQ(parts().size(), 2U);
  EXPECT_EQ(queue().keep(a, artifact_named("1-t/3", kElsewhere), {"last"}, false).answer, Answer::kept)
      << "what lies elsewhere is not counted";
}

TEST_P(QueueArtifacts, PartsThatAreGoneAreNotKept) {
  if (GetParam() == "memory") return;
  const auto lease = leased("j");
  EXPECT_EQ(queue().keep(lease, artifact_named("1-t/1", "redis"), {"last"}, false).answer, Answer::missing);
  EXPECT_EQ(role("j", "last"), "");
}

// Promise artifacts/job-removed: artifacts are removed with their job
TEST_P(QueueArtifacts, AForgottenJobTakesItsArtifactsAlong) {
  make({.keep_finished = Milliseconds(1000)});
  const auto lease = leased("j");
  store_in_redis(lease, artifact_named("1-t/1", "redis"), {"best"});
  queue().keep(lease, artifact_named("1-t/2"), {"last"}, false);
  finish(lease, Outcome::succeeded);
  EXPECT_EQ(parts().size(), 1U);
  advance(2000);
  queue().reap();
  EXPECT_FALSE(queue().find("j"));
  EXPECT_TRUE(queue().artifacts("j").by_role.empty());
  EXPECT_TRUE(parts().empty());
  EXPECT_THAT(queue().forgotten_artifacts(), ElementsAre(ForgottenArtifacts{kElsewhere, "j"}));
  queue().removed({kElsewhere, "j"});
  EXPECT_THAT(queue().forgotten_artifacts(), ElementsAre());
}

TEST_P(QueueArtifacts, WhyNothingIsStoredStandsThereUntilSomethingIs) {
  const auto lease = leased("j");
  queue().note_trouble_of_artifacts(lease, "no room");
  EXPECT_EQ(queue().artifacts("j").trouble, "no room");
  queue().keep(lease, artifact_named("1-t/1"), {"last"}, false);
  EXPECT_EQ(queue().artifacts("j").trouble, "");
}

INSTANTIATE_TEST_SUITE_P(All, QueueArtifacts, ::testing::Values("memory", "model", "redis", "cluster"),
                         [](const auto& test) { return test.param; });

// Promise artifacts/foreign-records
TEST(ArtifactText, NamesThatLeaveTheirFolderAreRefused) {
  for (const auto* path : {"", "/etc/passwd", "a/../b", "..", "a//b", "a/", ".hidden", "a b", "a\nb"})
    EXPECT_FALSE(is_artifact_path(path)) << path;
  EXPECT_TRUE(is_artifact_path("checkpoints/step-00000010/model.safetensors"));
  auto artifact = artifact_named("1-t/1");
  EXPECT_EQ(parse_artifact("1-t/1", artifact_text(artifact)), artifact);
  const auto hostile =
      R"({"store":"redis","path":"x","files":{"../../x":{"bytes":1,"sha256":")" + std::string(64, 'a') + "\"}}}";
  EXPECT_THROW(parse_artifact("1-t/1", hostile), JobsError);
  EXPECT_THROW(parse_artifact("1-t/1", "{}"), JobsError);
  const auto known = artifacts_of({{"last", "1-t/1"}, {"of:1-t/1", "damaged"}});
  EXPECT_TRUE(known.by_role.empty());
  EXPECT_NE(known.unreadable, "");
}

}  // namespace
}  // namespace foretime::jobs
