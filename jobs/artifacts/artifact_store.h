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

/// Reports that the store was not reached, is full or busy, or that Redis denied the connection. A retry may succeed.
struct StoreUnavailable : ErrorOf<kComm, JobsError> {
  using ErrorOf::ErrorOf;
};
/// Reports that the store refused: a right, bucket or credential is missing, or the file is too large. A retry does not
/// help.
struct StoreRefused : ErrorOf<kComm, JobsError> {
  using ErrorOf::ErrorOf;
};

/// The size of the largest file that any store accepts, in bytes.
inline constexpr uint64_t kLargestStored = uint64_t{1} << 30;

/// Stores files by name for all hosts of a queue. A name is JOB/ARTIFACT/FILE (jobs/queue/artifact.h) and is written by
/// one attempt only. Not thread-safe. Functions that reach the store throw StoreUnavailable and StoreRefused.
class ArtifactStore {
 public:
  virtual ~ArtifactStore() = default;
  /// Returns the store's address as in Artifact::store, such as "redis" or "s3://bucket/prefix".
  virtual std::string address() const = 0;
  /// Returns the size of the largest file that the store accepts, in bytes.
  virtual uint64_t largest_file() const = 0;
  /// Stores `bytes` as the file `name` and replaces a file of that name. A Redis store drops the file after ten minutes
  /// unless the queue keeps its artifact (JobQueue::keep).
  virtual void put(const std::string& name, const std::string& bytes) = 0;
  /// Returns the content of the file `name`; empty if the store has no such file. `recorded_bytes` is the size that the
  /// artifact's record states. Of a larger file, only a part is returned: the caller must check size and SHA-256.
  virtual std::optional<std::string> get(const std::string& name, uint64_t recorded_bytes) = 0;
  /// Returns the names (Artifact::name) of a job's artifacts of which any file exists, whether the queue keeps them or
  /// not. A Redis store returns none, since files that the queue does not keep expire there.
  virtual std::vector<std::string> list(const std::string& job) = 0;
  /// Removes all files whose names begin with `folder` and a slash; missing files are no error. A Redis store removes
  /// nothing, since the queue removes the files of artifacts that it no longer keeps.
  virtual void remove(const std::string& folder) = 0;
};

/// Stores files in the queue's Redis, in parts of kArtifactPart that expire after ten minutes unless the queue keeps
/// them. put() throws StoreUnavailable while Redis' memory is nearly full (memory_warning), since jobs take precedence.
class RedisStore final : public ArtifactStore {
 public:
  /// Uses `client`, which connects at its first call. `prefix` is QueueSettings::prefix.
  RedisStore(std::unique_ptr<RedisClient> client, const std::string& prefix);
  std::string address() const override;
  uint64_t largest_file() const override;
  void put(const std::string& name, const std::string& bytes) override;
  std::optional<std::string> get(const std::string& name, uint64_t recorded_bytes) override;
  std::vector<std::string> list(const std::string&) override { return {}; }
  void remove(const std::string&) override {}

 private:
  std::unique_ptr<RedisClient> client_;
  std::string prefix_;  // prefix of all keys, with braces and colon: "{foretime}:"
};

/// Stores files in a folder that all hosts share.
class FolderStore final : public ArtifactStore {
 public:
  /// Throws StoreRefused if `root` is not a folder, and StoreUnavailable if its storage fails.
  explicit FolderStore(const std::filesystem::path& root);
  std::string address() const override;
  uint64_t largest_file() const override;
  void put(const std::string& name, const std::string& bytes) override;
  std::optional<std::string> get(const std::string& name, uint64_t recorded_bytes) override;
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
  /// Restricts at() to Redis, the store at `address`, and stores that were added or made before: other users may write
  /// records, and must not lead an agent to other places.
  void restrict_to(const std::string& address) { only_ = address; }
  /// Adds a store that at() returns for the store's address instead of making one.
  void add(std::unique_ptr<ArtifactStore> store);
  /// Returns the store at `address`, made at the first call. Throws StoreRefused for an invalid or forbidden address,
  /// and the errors of FolderStore() and S3Access::from_environment().
  ArtifactStore& at(const std::string& address);

 private:
  MakeClient make_client_;
  std::string prefix_;
  std::optional<std::string> only_;
  std::map<std::string, std::unique_ptr<ArtifactStore>> stores_;
};

/// Returns the value of --artifacts in the form of Artifact::store: "redis", "folder:" and the real path of an existing
/// folder, or "s3://bucket/prefix"; an empty value stays empty. Throws JobsError for any other value, and StoreRefused
/// if the credentials for S3 are not set.
std::string store_address(const std::string& option);

/// Returns the address of the part of a store that belongs to one queue: `address`, a slash and the queue's identity
/// `queue`. Makes that folder for a folder store. Queues that share a store may have equal job ids. Returns an empty
/// address and that of Redis unchanged. Throws FileError.
std::string store_of_queue(const std::string& address, const std::string& queue);

}  // namespace foretime::jobs
