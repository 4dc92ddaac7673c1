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
  std::string path{};                         // what to open of it, relative to the attempt's folder
  int64_t step = 0;                           // of a checkpoint
  std::map<std::string, StoredFile> files{};  // by path relative to the attempt's folder
  uint64_t bytes() const;
  bool operator==(const Artifact&) const = default;
};

/// What a job may have, one of each. `last`: to go on from, or the product of an export or a fine-tuning. `best`: the
/// best checkpoint. `run`: what was known of the run at its end.
inline constexpr const char* kArtifactRoles[] = {"last", "best", "run"};

/// Where artifacts are that lie in the queue's Redis.
inline constexpr const char* kRedisStore = "redis";

/// All that is stored of a job.
struct JobArtifacts {
  std::map<std::string, Artifact> by_role{};
  std::string trouble{};     // why the newest is not stored; empty: it is
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

/// In Redis a file is stored in parts of this size, each a key: PREFIX "artifact:" JOB "/" ARTIFACT "/" FILE ":"
/// NUMBER.
inline constexpr size_t kArtifactPart = 4 << 20;
/// Returns the keys of a file's parts, without the prefix of the queue. `name`: JOB/ARTIFACT/FILE.
std::vector<std::string> redis_part_keys(const std::string& name, uint64_t bytes);

/// What came of an attempt to have an artifact kept.
struct KeptArtifact {
  enum class Answer {
    kept,
    lost,    // the lease is
    full,    // the quota of this Redis
    missing  // its parts have gone: they took too long
  } answer = Answer::kept;
  uint64_t used = 0, quota = 0;        // bytes in Redis, of all jobs
  std::vector<std::string> dropped{};  // names of this job's artifacts outside of Redis that it has no more
};

/// All artifacts of a job that the queue has forgotten are to be removed from a store other than Redis.
struct ForgottenArtifacts {
  std::string store{}, job{};
  bool operator==(const ForgottenArtifacts&) const = default;
};

}  // namespace foretime::jobs
