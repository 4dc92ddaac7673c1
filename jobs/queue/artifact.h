#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

/// Artifacts: what an attempt of a job has written and other hosts need, stored where they reach it.
/// docs/reference/jobs.md has the Redis keys.
namespace foretime::jobs {

/// One file of an artifact.
struct StoredFile {
  uint64_t bytes = 0;
  std::string sha256{};  // hexadecimal
  bool operator==(const StoredFile&) const = default;
};

/// Files of the folder of an attempt, stored together: a checkpoint, an exported folder, a bundle.
struct Artifact {
  /// FENCE-TOKEN/WHAT, such as 3-1f…/step-00000010: attempts have names of their own, so that one that lost its lease
  /// overwrites nothing.
  std::string name{};
  std::string store{};                        // "redis", "folder:/shared/artifacts", "s3://bucket/prefix"
  std::string path{};                         // file or folder that readers open, relative to the attempt's folder
  int64_t step = 0;                           // training step of a checkpoint, else 0
  std::map<std::string, StoredFile> files{};  // key: path relative to the attempt's folder
  uint64_t bytes() const;
  bool operator==(const Artifact&) const = default;
};

/// The artifacts that a job may have, one of each role. `last`: the checkpoint to continue from, or the product of an
/// export or a fine-tuning. `best`: the best checkpoint. `run`: the run's configuration, metrics and log at its end.
inline constexpr const char* kArtifactRoles[] = {"last", "best", "run"};

/// Artifact::store of artifacts that the queue's Redis holds.
inline constexpr const char* kRedisStore = "redis";

/// All stored artifacts of a job.
struct JobArtifacts {
  std::map<std::string, Artifact> by_role{};
  std::string trouble{};     // reason why the newest artifact is not stored; empty: it is stored
  std::string unreadable{};  // an entry that cannot be read
};

/// Returns an artifact's entry in Redis, JSON. Throws JobsError for a name or path that no store may have, and where it
/// is too large.
std::string artifact_text(const Artifact& artifact);
Artifact parse_artifact(const std::string& name, const std::string& text);

/// Reads the fields of a job's hash of artifacts. What cannot be read is named in `unreadable`.
JobArtifacts artifacts_of(const std::map<std::string, std::string>& fields);

/// Returns whether it is a relative path without . and .. of letters, digits and . _ - that every store can hold.
bool is_artifact_path(const std::string& path);

/// Bytes of a part: Redis stores a file as parts, each under the key PREFIX "artifact:" JOB "/" ARTIFACT "/" FILE ":"
/// NUMBER.
inline constexpr size_t kArtifactPart = 4 << 20;
/// Returns the keys of a file's parts, without the prefix of the queue. `name`: JOB/ARTIFACT/FILE.
std::vector<std::string> redis_part_keys(const std::string& name, uint64_t bytes);

/// The answer of the queue to a holder that asks it to keep an artifact.
struct KeptArtifact {
  enum class Answer {
    kept,
    lost,    // the holder has lost its lease
    full,    // the quota of this Redis is used up
    missing  // parts of the artifact expired before the last one came
  } answer = Answer::kept;
  uint64_t used = 0, quota = 0;        // bytes of the artifacts of all jobs in Redis
  std::vector<std::string> dropped{};  // names of artifacts outside of Redis that this job no longer has
};

/// All artifacts of a job that the queue has forgotten are to be removed from a store other than Redis.
struct ForgottenArtifacts {
  std::string store{}, job{};
  bool operator==(const ForgottenArtifacts&) const = default;
};

}  // namespace foretime::jobs
