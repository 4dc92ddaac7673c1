#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "jobs/error.h"
#include "jobs/redis/redis_client.h"

namespace foretime::jobs {

/// The store was not reached, or is full or busy: later it may take what it does not take now.
struct StoreUnavailable : ErrorOf<kComm, JobsError> {
  using ErrorOf::ErrorOf;
};
/// The store refuses: a right, a bucket that is not there, too large a file. Trying again does not help.
struct StoreRefused : ErrorOf<kComm, JobsError> {
  using ErrorOf::ErrorOf;
};

/// The largest file that any store takes, in bytes.
inline constexpr uint64_t kLargestStored = uint64_t{1} << 30;

/// Files by name, which all hosts of a queue reach. A name is JOB/ARTIFACT/FILE (jobs/queue/artifact.h), and is written
/// by one attempt alone. As thread-safe as what it is made of: one for each thread. Throws StoreUnavailable and
/// StoreRefused.
class ArtifactStore {
 public:
  virtual ~ArtifactStore() = default;
  /// As records name it.
  virtual std::string address() const = 0;
  /// The largest file that it takes.
  virtual uint64_t largest_file() const = 0;
  /// Stores a file, in the place of one that an earlier try has left. It may be gone again later unless the queue keeps
  /// its artifact.
  virtual void put(const std::string& name, const std::string& bytes) = 0;
  /// Empty where there is none. `bytes`: as many as it has, at most.
  virtual std::optional<std::string> get(const std::string& name, uint64_t bytes) = 0;
  /// Names of the artifacts of a job of which any file is there, kept or not. Nothing of Redis, where what is not kept
  /// expires.
  virtual std::vector<std::string> list(const std::string& job) = 0;
  /// All files whose names begin with `folder` and a slash; none is no error. Those of Redis are the queue's to remove.
  virtual void remove(const std::string& folder) = 0;
};

/// In the queue's Redis, in parts of kArtifactPart that expire after ten minutes unless the queue keeps them. Takes
/// nothing while Redis' memory is nearly full: jobs come first.
class RedisStore final : public ArtifactStore {
 public:
  /// `prefix` as in QueueSettings.
  RedisStore(std::unique_ptr<RedisClient> client, const std::string& prefix);
  std::string address() const override;
  uint64_t largest_file() const override;
  void put(const std::string& name, const std::string& bytes) override;
  std::optional<std::string> get(const std::string& name, uint64_t bytes) override;
  std::vector<std::string> list(const std::string&) override { return {}; }
  void remove(const std::string&) override {}

 private:
  std::unique_ptr<RedisClient> client_;
  std::string prefix_;  // {prefix}:
};

/// In a folder that hosts share.
class FolderStore final : public ArtifactStore {
 public:
  /// Throws StoreRefused where it is no folder.
  explicit FolderStore(const std::filesystem::path& root);
  std::string address() const override;
  uint64_t largest_file() const override;
  void put(const std::string& name, const std::string& bytes) override;
  std::optional<std::string> get(const std::string& name, uint64_t bytes) override;
  std::vector<std::string> list(const std::string& job) override;
  void remove(const std::string& folder) override;

 private:
  std::filesystem::path root_;
};

/// The stores that a program uses, each made at its first use. One for each thread.
class ArtifactStores {
 public:
  using MakeClient = std::function<std::unique_ptr<RedisClient>()>;
  ArtifactStores(MakeClient make_client, std::string prefix)
      : make_client_(std::move(make_client)), prefix_(std::move(prefix)) {}
  /// Nothing but Redis and this store is used: records, which others may write, must not lead an agent elsewhere.
  void only(const std::string& address) { only_ = address; }
  /// In place of the one that at() would make.
  void use(std::unique_ptr<ArtifactStore> store);
  /// Throws StoreRefused for an address that is none, or is not to be used.
  ArtifactStore& at(const std::string& address);

 private:
  MakeClient make_client_;
  std::string prefix_;
  std::optional<std::string> only_;
  std::map<std::string, std::unique_ptr<ArtifactStore>> stores_;
};

/// An option's text as records name the store: "redis", "folder:" and a real path, "s3://bucket/prefix"; empty stays
/// empty. Throws JobsError with what was expected.
std::string store_address(const std::string& option);

/// The part of a store that belongs to one queue: the folder or prefix that is named by the queue's identity, which is
/// made below the store's folder. Queues may share a store, where equal jobs have equal ids: what one removes must not
/// be another's. Redis keeps them apart by their prefixes. Throws FileError.
std::string store_of_queue(const std::string& address, const std::string& queue);

}  // namespace foretime::jobs
