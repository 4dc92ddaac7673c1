#include "jobs/artifacts/artifact_store.h"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/files.h"
#include "base/hex_digest.h"
#include "jobs/artifacts/s3_store.h"
#include "jobs/artifacts/transfer.h"
#include "jobs/queue/artifact.h"
#include "jobs/queue/job.h"
#include "jobs/redis/redis_health.h"
#include "tests/simulation/simulated_files.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"
#include "tests/support/paths.h"
#include "tests/support/redis_server.h"
#include "tests/support/scratch.h"

namespace foretime::jobs {
namespace {

namespace fs = std::filesystem;
using foretime::testing::message_of;
using foretime::testing::Scratch;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

foretime::testing::RedisServer& artifact_server() {
  static foretime::testing::RedisServer server(foretime::testing::RedisServer::Options{false, "no", {}});
  return server;
}

constexpr const char *kKeyId = "AKIDEXAMPLE", *kSecret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

/// The stand-in for an S3-compatible store (tests/support/s3_server.py).
class S3Server {
 public:
  explicit S3Server(const std::vector<std::string>& options = {}) {
    std::array<int, 2> in{}, out{};
    EXPECT_EQ(pipe2(in.data(), O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(out.data(), O_CLOEXEC), 0);
    std::vector<std::string> words = {"python3",
                                      (foretime::testing::source_dir() / "tests/support/s3_server.py").string(),
                                      "models", kKeyId, kSecret};
    words.insert(words.end(), options.begin(), options.end());
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    process_ = fork();
    if (process_ == 0) {
      dup2(in[0], 0);
      dup2(out[1], 1);
      execvp(arguments[0], arguments.data());
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    input_ = Descriptor(in[1]);
    const Descriptor output(out[0]);
    std::string port;
    for (char c = 0; read(output.get(), &c, 1) == 1 && c != '\n';) port += c;
    endpoint_ = "http://127.0.0.1:" + port;
  }
  ~S3Server() {
    input_ = Descriptor();
    waitpid(process_, nullptr, 0);
  }
  S3Server(const S3Server&) = delete;
  S3Server& operator=(const S3Server&) = delete;
  S3Access access(const std::string& secret = kSecret) const {
    return {.endpoint = endpoint_, .region = "eu-central-1", .key_id = kKeyId, .secret = secret};
  }

 private:
  pid_t process_ = -1;
  Descriptor input_;
  std::string endpoint_;
};

std::unique_ptr<ArtifactStore> make_store(const std::string& kind, const fs::path& folder) {
  if (kind == "redis")
    return std::make_unique<RedisStore>(std::make_unique<RedisClient>(artifact_server().url()), "store");
  if (kind == "s3") {
    static S3Server server({"--page", "2"});
    static int tests = 0;
    return std::make_unique<S3Store>(fmt::format("s3://models/of/test{}", ++tests), server.access());
  }
  return std::make_unique<FolderStore>(folder);
}

/// What every store promises.
class ArtifactStoreContract : public ::testing::TestWithParam<std::string> {
 protected:
  Scratch scratch_;
  std::unique_ptr<ArtifactStore> store_ = make_store(GetParam(), scratch_.path());
};

TEST_P(ArtifactStoreContract, WhatWasStoredComesBackByteByByte) {
  std::string large(kArtifactPart + 4097, 'x');
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 31 % 256);
  const std::map<std::string, std::string> contents = {{"j/1-t/1-step/checkpoints/step-1/model.safetensors", large},
                                                       {"j/1-t/1-step/config.yaml", "a: 1\n"},
                                                       {"j/1-t/1-step/empty", ""},
                                                       {"j/1-t/1-step/zeros", std::string("\0\r\n\xFF", 4)}};
  for (const auto& [name, bytes] : contents) store_->put(name, bytes);
  for (const auto& [name, bytes] : contents) EXPECT_EQ(store_->get(name, bytes.size()), bytes) << name;
}

TEST_P(ArtifactStoreContract, WhatIsNotThereIsEmpty) {
  EXPECT_EQ(store_->get("j/1-t/none/config.yaml", 5), std::nullopt);
}

TEST_P(ArtifactStoreContract, AnotherTryReplacesWhatTheFirstOneLeft) {
  store_->put("j/1-t/2-step/config.yaml", "half");
  store_->put("j/1-t/2-step/config.yaml", "whole");
  EXPECT_EQ(store_->get("j/1-t/2-step/config.yaml", 5), "whole");
}

TEST_P(ArtifactStoreContract, AFolderIsRemovedWithAllThatItHoldsAndNothingBesideIt) {
  if (GetParam() == "redis") return;  // the queue removes those
  store_->put("j/1-t/3/a", "a");
  store_->put("j/1-t/3/b/c", "c");
  store_->put("j/1-t/30/a", "other");
  EXPECT_THAT(store_->list("j"), ::testing::UnorderedElementsAre("1-t/3", "1-t/30"));
  EXPECT_THAT(store_->list("none"), ::testing::IsEmpty());
  store_->remove("j/1-t/3");
  EXPECT_EQ(store_->get("j/1-t/3/a", 1), std::nullopt);
  EXPECT_EQ(store_->get("j/1-t/3/b/c", 1), std::nullopt);
  EXPECT_EQ(store_->get("j/1-t/30/a", 5), "other");
  store_->remove("j/1-t/3");
  store_->remove("j");
  EXPECT_EQ(store_->get("j/1-t/30/a", 5), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(All, ArtifactStoreContract, ::testing::Values("redis", "folder", "s3"),
                         [](const auto& test) { return test.param; });

TEST(RedisStore, PartsExpireUntilTheQueueKeepsThem) {
  RedisClient client(artifact_server().url());
  make_store("redis", "")->put("e/1-t/1/a", "bytes");
  const auto left = integer_of(*client.call({"PTTL", "{store}:artifact:e/1-t/1/a:0"}));
  EXPECT_GT(left, 500'000);
  EXPECT_LE(left, 600'000);
}

// Promise artifacts/redis-memory
TEST(RedisStore, AMemoryThatIsNearlyFullIsLeftToTheJobs) {
  foretime::testing::RedisServer server(
      foretime::testing::RedisServer::Options{false, "no", {"maxmemory 10mb", "maxmemory-policy noeviction"}});
  RedisClient client(server.url());
  for (int i = 0; memory_warning(client).empty(); ++i)
    client.call({"SET", "ballast" + std::to_string(i), std::string(64 << 10, 'x')});
  RedisStore store(std::make_unique<RedisClient>(server.url()), "store");
  EXPECT_MESSAGE(message_of<StoreUnavailable>([&] { store.put("j/1-t/1/a", "bytes"); }));
}

TEST(S3Store, AWrongSecretIsRefusedAndNeverNamed) {
  const S3Server server;
  S3Store store("s3://models", server.access("not the secret"));
  const auto said = message_of<StoreRefused>([&] { store.put("j/1-t/1/a", "bytes"); });
  EXPECT_THAT(said, AllOf(HasSubstr("403 SignatureDoesNotMatch"), Not(HasSubstr("not the secret"))));
  EXPECT_THROW(store.get("j/1-t/1/a", 5), StoreRefused);
}

TEST(S3Store, ABucketThatIsNotThereIsRefusedWithItsName) {
  const S3Server server;
  S3Store store("s3://none/of", server.access());
  EXPECT_THAT(message_of<StoreRefused>([&] { store.put("j/1-t/1/a", "bytes"); }),
              AllOf(HasSubstr("s3://none/of"), HasSubstr("NoSuchBucket")));
  EXPECT_THROW(store.list("j"), StoreRefused);
}

TEST(S3Store, AStoreThatIsBusyOrAwayIsTriedAgainLater) {
  const S3Server server({"--fail", "1"});
  S3Store store("s3://models", server.access());
  EXPECT_THAT(message_of<StoreUnavailable>([&] { store.put("j/1-t/1/a", "bytes"); }), HasSubstr("503 SlowDown"));
  store.put("j/1-t/1/a", "bytes");
  EXPECT_EQ(store.get("j/1-t/1/a", 5), "bytes");
  S3Store away("s3://models", {.endpoint = "http://127.0.0.1:1", .region = "r", .key_id = "k", .secret = "s"});
  EXPECT_THROW(away.get("j/1-t/1/a", 5), StoreUnavailable);
}

TEST(S3Store, AStoreThatListsMoreThanItWasAskedForLosesNothingElse) {
  const S3Server server({"--list-all"});
  S3Store store("s3://models/of", server.access());
  for (const auto* name : {"j/1-t/3/a", "j/1-t/30/a", "k/1-t/3/a"}) store.put(name, "bytes");
  EXPECT_THAT(store.list("k"), ::testing::ElementsAre("1-t/3"));
  store.remove("j/1-t/3");
  EXPECT_EQ(store.get("j/1-t/3/a", 5), std::nullopt);
  EXPECT_EQ(store.get("j/1-t/30/a", 5), "bytes");
  EXPECT_EQ(store.get("k/1-t/3/a", 5), "bytes");
}

TEST(S3Store, ASessionTokenIsSentAndSigned) {
  const S3Server server({"--token", "of+this/session="});
  auto access = server.access();
  access.session_token = "of+this/session=";
  S3Store store("s3://models", access);
  store.put("j/1-t/1/a", "bytes");
  EXPECT_EQ(store.get("j/1-t/1/a", 5), "bytes");
  EXPECT_THAT(store.list("j"), ::testing::ElementsAre("1-t/1"));
}

TEST(S3Store, AddressesAndVariablesAreChecked) {
  for (const auto* address :
       {"s3://", "s3://ab", "s3://Models", "s3://models/", "s3://models/../x", "s3://models/a b", "S3://models"})
    EXPECT_FALSE(is_s3_address(address)) << address;
  EXPECT_TRUE(is_s3_address("s3://models/of/ours"));
  for (const char* name : {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "AWS_REGION"})
    unsetenv(name);
  EXPECT_MESSAGE(message_of<StoreRefused>([] { store_address("s3://models/of/ours"); }));
  setenv("AWS_ACCESS_KEY_ID", "k", 1);
  setenv("AWS_SECRET_ACCESS_KEY", "s", 1);
  EXPECT_EQ(store_address("s3://models/of/ours/"), "s3://models/of/ours");
  EXPECT_EQ(S3Access::from_environment().endpoint, "https://s3.us-east-1.amazonaws.com");
  setenv("AWS_ENDPOINT_URL", "minio:9000", 1);
  EXPECT_THAT(message_of<StoreRefused>([] { store_address("s3://models"); }), HasSubstr("expected https://HOST"));
  for (const char* name : {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"}) unsetenv(name);
}

TEST(FolderStore, AFolderThatIsGoneIsRefusedAndAFileInItsPlaceToo) {
  const Scratch scratch;
  std::ofstream(scratch.path() / "file") << "x";
  EXPECT_THROW(FolderStore(scratch.path() / "none"), StoreRefused);
  EXPECT_THROW(FolderStore(scratch.path() / "file"), StoreRefused);
  EXPECT_MESSAGE(message_of<JobsError>([&] { store_address("folder:" + (scratch.path() / "none").string()); }));
  EXPECT_MESSAGE(message_of<JobsError>([] { store_address("ftp://x"); }));
}

// Promise artifacts/foreign-records: records of Redis lead no agent to files of its machine
TEST(ArtifactStores, RecordsLeadAnAgentToNoOtherStoreThanItsOwn) {
  const Scratch scratch;
  ArtifactStores stores([] { return std::make_unique<RedisClient>(artifact_server().url()); }, "store");
  stores.restrict_to("folder:" + scratch.path().string());
  EXPECT_EQ(stores.at("redis").address(), "redis");
  EXPECT_EQ(stores.at("folder:" + scratch.path().string()).address(), "folder:" + scratch.path().string());
  EXPECT_MESSAGE(message_of<StoreRefused>([&] { stores.at("folder:/etc"); }));
}

/// A run with two checkpoints, of which the first is the best one, and their store.
class ArtifactTransfer : public ::testing::Test {
 protected:
  ArtifactTransfer() {
    fs::create_directories(runs_);
    fs::create_directories(shared_);
    write("config.yaml", "trainer: {}\n");
    write("data.json", "{}\n");
    write("metrics.jsonl",
          "{\"kind\":\"train\",\"step\":1}\n{\"kind\":\"eval\",\"step\":10,\"valid/"
          "mae\":1}\n{\"kind\":\"final\",\"step\":20}\n");
    write("checkpoints/best.json", "{\"step\": 10}\n");
    for (const auto* step : {"step-00000010", "step-00000020"}) {
      write(std::string("checkpoints/") + step + "/model.safetensors", std::string("weights of ") + step);
      write(std::string("checkpoints/") + step + "/manifest.json",
            "{\"step\": 1, \"files\": {\"model.safetensors\": {\"bytes\": 24, \"crc32\": 1}}}");
    }
    stores_.restrict_to(address_);
    keep("best", "checkpoints/step-00000010");
    keep("last", "checkpoints/step-00000020");
  }
  void write(const std::string& name, const std::string& text) {
    fs::create_directories((runs_ / name).parent_path());
    std::ofstream(runs_ / name) << text;
  }
  void keep(const std::string& role, const std::string& checkpoint) {
    auto packed = pack_checkpoint(runs_, checkpoint);
    packed.artifact.name = "1-t/" + role;
    packed.artifact.store = address_;
    store_artifact(stores_.at(address_), "j", packed);
    known_.by_role[role] = packed.artifact;
  }
  fs::path stored(const std::string& role, const std::string& file) { return shared_ / "j/1-t" / role / file; }
  FetchedArtifact fetch(Want want) { return fetch_artifact(stores_, "j", known_, want, into_); }
  std::string fetched(const std::string& name) { return files().read(into_ / name); }

  Scratch scratch_;
  fs::path runs_ = scratch_.path() / "run", shared_ = scratch_.path() / "shared", into_ = scratch_.path() / "into";
  std::string address_ = "folder:" + shared_.string();
  ArtifactStores stores_{[] { return std::make_unique<RedisClient>(artifact_server().url()); }, "store"};
  JobArtifacts known_;
};

TEST_F(ArtifactTransfer, AnAttemptGoesOnFromTheLastCheckpointWithTheBestOneBesideIt) {
  const auto found = fetch(Want::resume);
  EXPECT_EQ(found.path, into_ / "checkpoints/step-00000020");
  EXPECT_EQ(found.step, 20);
  EXPECT_EQ(fetched("checkpoints/step-00000010/model.safetensors"), "weights of step-00000010");
  EXPECT_EQ(fetched("checkpoints/step-00000020/model.safetensors"), "weights of step-00000020");
  EXPECT_EQ(found.notes.size(), 0U);
}

TEST_F(ArtifactTransfer, AResultIsTheBestCheckpointWithItsRunAndItsEvaluations) {
  EXPECT_EQ(fetch(Want::result).path, into_);
  EXPECT_EQ(fetched("config.yaml"), "trainer: {}\n");
  EXPECT_EQ(fetched("metrics.jsonl"),
            "{\"kind\":\"eval\",\"step\":10,\"valid/mae\":1}\n{\"kind\":\"final\",\"step\":20}\n");
  EXPECT_TRUE(fs::exists(into_ / "checkpoints/step-00000010/manifest.json"));
  EXPECT_FALSE(fs::exists(into_ / "checkpoints/step-00000020"));
}

// Promise artifacts/damaged: a damaged artifact is never used; an older intact one is
TEST_F(ArtifactTransfer, WhatIsDamagedIsPassedOverForAnOlderOneThatIsIntact) {
  std::ofstream(stored("last", "checkpoints/step-00000020/model.safetensors")) << "weights 0f step-00000020";
  const auto found = fetch(Want::resume);
  EXPECT_EQ(found.step, 10);
  ASSERT_EQ(found.notes.size(), 1U);
  EXPECT_MESSAGE(found.notes[0]);
  EXPECT_FALSE(fs::exists(into_ / "checkpoints/step-00000020"));
}

TEST_F(ArtifactTransfer, WhereNothingIsIntactNothingIsWritten) {
  fs::remove(stored("last", "config.yaml"));
  std::ofstream(stored("best", "checkpoints/step-00000010/model.safetensors"), std::ios::app) << "more";
  const auto found = fetch(Want::result);
  EXPECT_FALSE(found.found());
  EXPECT_EQ(found.notes.size(), 2U);
  EXPECT_FALSE(fs::exists(into_));
}

TEST_F(ArtifactTransfer, ADiskThatIsFullWhenAFileIsClosedIsAnError) {
  simulation::SimulatedFiles disk;
  for (const auto& entry : fs::recursive_directory_iterator(scratch_.path())) {
    disk.create_folders(entry.path().parent_path());
    if (entry.is_regular_file()) disk.open(entry.path(), Files::Open::replace)->write(files().read(entry.path()));
  }
  disk.fail_by([](const char* operation, const fs::path& path, size_t) {
    return std::string_view(operation) == "close" && path.filename() == "model.safetensors" ? ENOSPC : 0;
  });
  const FilesScope scope(disk);
  EXPECT_THROW(fetch(Want::resume), StorageError);
}

TEST_F(ArtifactTransfer, ARecordWithoutTheFilesThatItNamesIsPassedOver) {
  known_.by_role["last"].path = "checkpoints/step-0000002";
  const auto found = fetch(Want::resume);
  EXPECT_EQ(found.step, 10);
  ASSERT_EQ(found.notes.size(), 1U);
  EXPECT_MESSAGE(found.notes[0]);
}

TEST_F(ArtifactTransfer, ARecordWithAFileThatIsAFolderOfOthersIsPassedOver) {
  write("checkpoints/step-00000030", "a file");
  auto packed = pack_product(runs_, "checkpoints/step-00000030");
  packed.artifact.name = "1-t/last", packed.artifact.store = address_;
  packed.contents["checkpoints/step-00000010"] = "a file too";
  packed.artifact.files["checkpoints/step-00000010"] = {10, hex_digest("SHA256", "a file too")};
  store_artifact(stores_.at(address_), "j", packed);
  known_.by_role["last"] = packed.artifact;
  const auto found = fetch(Want::resume);
  EXPECT_EQ(found.path, into_ / "checkpoints/step-00000010");
  ASSERT_EQ(found.notes.size(), 1U);
  EXPECT_MESSAGE(found.notes[0], "1-t/last");
}

TEST_F(ArtifactTransfer, ACheckpointThatIsNotWholeIsNotPacked) {
  write("checkpoints/step-00000020/model.safetensors", "half");
  EXPECT_MESSAGE(message_of<JobsError>([&] { pack_checkpoint(runs_, "checkpoints/step-00000020"); }));
  fs::remove(runs_ / "checkpoints/step-00000020/model.safetensors");
  EXPECT_MESSAGE(message_of<JobsError>([&] { pack_checkpoint(runs_, "checkpoints/step-00000020"); }));
  fs::remove(runs_ / "checkpoints/step-00000020/manifest.json");
  EXPECT_THROW(pack_checkpoint(runs_, "checkpoints/step-00000020"), JobsError);
}

}  // namespace
}  // namespace foretime::jobs
