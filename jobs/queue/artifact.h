#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

/// Artifacts: files that an attempt of a job has written, stored where other hosts can read them.
/// docs/reference/jobs.md lists the Redis keys.
namespace foretime::jobs {

/// One file of an artifact.
struct StoredFile {
  uint64_t bytes = 0;    // size of the file
  std::string sha256{};  // 64 hexadecimal digits
  bool operator==(const StoredFile&) const = default;
};

/// Files of an attempt's folder that are stored together: a checkpoint, an exported folder, a bundle, or metrics.
struct Artifact {
  /// FENCE-TOKEN/WHAT, such as 3-1f…/step-00000010. Fence and token are those of the attempt's lease, so that an
  /// attempt that lost its lease overwrites no files of a later one.
  std::string name{};
  std::string store{};                        // "redis", "folder:/shared/artifacts", "s3://bucket/prefix"
  std::string path{};                         // file or folder that readers open, relative to the attempt's folder
  int64_t step = 0;                           // training step of a checkpoint; 0 for other artifacts
  std::map<std::string, StoredFile> files{};  // key: path relative to the attempt's folder
  uint64_t bytes() const;                     // sum of the sizes of the files
  bool operator==(const Artifact&) const = default;
};

/// The roles of artifacts; a job has at most one artifact of each. `last`: the checkpoint to continue from, or the
/// product of an export or a fine-tuning. `best`: the best checkpoint. `run`: the run's settings and evaluations.
inline constexpr const char* kArtifactRoles[] = {"last", "best", "run"};

/// Artifact::store of artifacts that the queue's Redis holds.
inline constexpr const char* kRedisStore = "redis";

/// All stored artifacts of a job.
struct JobArtifacts {
  std::map<std::string, Artifact> by_role{};  // key: one of kArtifactRoles
  std::string trouble{};                      // reason why the newest artifact is not stored; empty: it is stored
  std::string unreadable{};                   // reason why an entry cannot be read; empty: all were read
};

/// Returns an artifact's entry in Redis: JSON of all members but the name. Throws JobsError if a name or path is no
/// is_artifact_path(), the store or a SHA-256 is missing, or there are more than 256 files or 64 KiB of text.
std::string artifact_text(const Artifact& artifact);
/// Parses the text of artifact_text(). Throws JobsError for any other text.
Artifact parse_artifact(const std::string& name, const std::string& text);

/// Reads the fields of a job's hash of artifacts. A damaged entry is left out and named in `unreadable`.
JobArtifacts artifacts_of(const std::map<std::string, std::string>& fields);

/// Returns whether `path` is a relative path that every store can hold: 1 to 200 bytes, components of letters, digits
/// and . _ - that do not begin with a dot.
bool is_artifact_path(const std::string& path);

/// The bytes of a part of a file in Redis; its key is PREFIX artifact:JOB/ARTIFACT/FILE:NUMBER.
inline constexpr size_t kArtifactPart = 4 << 20;
/// Returns the keys, without PREFIX, of the parts of a file of `bytes` bytes: at least one. `name` is
/// JOB/ARTIFACT/FILE.
std::vector<std::string> redis_part_keys(const std::string& name, uint64_t bytes);

/// The answer of JobQueue::may_store() and JobQueue::keep().
struct KeptArtifact {
  enum class Answer {
    kept,    // the artifact is kept, or may be stored
    lost,    // the lease was lost
    full,    // the quota of artifacts in Redis is used up
    missing  // parts of the artifact expired before all were stored
  } answer = Answer::kept;
  uint64_t used = 0, quota = 0;        // full: bytes of the artifacts of all jobs in Redis, and the limit
  std::vector<std::string> dropped{};  // names of this job's artifacts that the caller must remove from a store
};

/// Names a job that the queue has forgotten and whose artifacts must be removed from a store other than Redis.
struct ForgottenArtifacts {
  std::string store{}, job{};
  bool operator==(const ForgottenArtifacts&) const = default;
};

}  // namespace foretime::jobs
