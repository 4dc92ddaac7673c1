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

/// Reports that the store was not reached, or is full or busy. A later retry may succeed.
struct StoreUnavailable : ErrorOf<kComm, JobsError> {
  using ErrorOf::ErrorOf;
};
/// Reports that the store refused: a missing right or bucket, or too large a file. A retry does not help.
struct StoreRefused : ErrorOf<kComm, JobsError> {
  using ErrorOf::ErrorOf;
};

/// Bounds the size of a file in any store, in bytes.
inline constexpr uint64_t kLargestStored = uint64_t{1} << 30;

/// Stores files by name for all hosts of a queue. A name is JOB/ARTIFACT/FILE (jobs/queue/artifact.h) and is written by
/// one attempt only. Not thread-safe: make one for each thread. Throws StoreUnavailable and StoreRefused.
class ArtifactStore {
 public:
  virtual ~ArtifactStore() = default;
  /// Returns the store's address as records name it.
  virtual std::string address() const = 0;
  /// Returns the size of the largest file that the store accepts, in bytes.
  virtual uint64_t largest_file() const = 0;
  /// Stores a file, replacing one from an earlier try. The store may drop it later unless the queue keeps its artifact.
  virtual void put(const std::string& name, const std::string& bytes) = 0;
  /// Returns a file's content; empty if there is no such file. `bytes` is the recorded size; a larger file is cut off.
  virtual std::optional<std::string> get(const std::string& name, uint64_t bytes) = 0;
  /// Returns the names of a job's artifacts of which any file exists, kept or not. A Redis store returns none, since
  /// its unkept files expire.
  virtual std::vector<std::string> list(const std::string& job) = 0;
  /// Removes all files whose names begin with `folder` and a slash; missing files are no error. A Redis store removes
  /// nothing: the queue does.
  virtual void remove(const std::string& folder) = 0;
};

/// Stores files in the queue's Redis, in parts of kArtifactPart that expire after ten minutes unless the queue keeps
/// them. Refuses files while Redis' memory is nearly full: jobs take precedence.
class RedisStore final : public ArtifactStore {
 public:
  /// Connects by `client`. `prefix` is that of QueueSettings.
  RedisStore(std::unique_ptr<RedisClient> client, const std::string& prefix);
  std::string address() const override;
  uint64_t largest_file() const override;
  void put(const std::string& name, const std::string& bytes) override;
  std::optional<std::string> get(const std::string& name, uint64_t bytes) override;
  std::vector<std::string> list(const std::string&) override { return {}; }
  void remove(const std::string&) override {}

 private:
  std::unique_ptr<RedisClient> client_;
  std::string prefix_;  // {prefix}: including braces and colon
};

/// Stores files in a folder that all hosts share.
class FolderStore final : public ArtifactStore {
 public:
  /// Opens the folder. Throws StoreRefused if `root` is not a folder.
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

/// Makes the stores that a thread uses, each at its first use.
class ArtifactStores {
 public:
  using MakeClient = std::function<std::unique_ptr<RedisClient>()>;
  ArtifactStores(MakeClient make_client, std::string prefix)
      : make_client_(std::move(make_client)), prefix_(std::move(prefix)) {}
  /// Restricts at() to Redis and this store: records, which others may write, must not lead an agent to other places.
  void restrict_to(const std::string& address) { only_ = address; }
  /// Adds a store that at() returns instead of making one.
  void add(std::unique_ptr<ArtifactStore> store);
  /// Returns the store at `address`. Throws StoreRefused for an invalid or forbidden address.
  ArtifactStore& at(const std::string& address);

 private:
  MakeClient make_client_;
  std::string prefix_;
  std::optional<std::string> only_;
  std::map<std::string, std::unique_ptr<ArtifactStore>> stores_;
};

/// Returns an option's text in the form of records: "redis", "folder:" and a real path, "s3://bucket/prefix"; empty
/// stays empty. Throws JobsError with the expected forms.
std::string store_address(const std::string& option);

/// Returns the address of the part of a store that belongs to one queue: a folder or prefix named by the queue's
/// identity, made below the store's folder. Queues may share a store and have equal job ids, so that one must not
/// remove files of another. A Redis store is returned unchanged, since its keys have a prefix. Throws FileError.
std::string store_of_queue(const std::string& address, const std::string& queue);

}  // namespace foretime::jobs
