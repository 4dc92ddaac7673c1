#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

/// Functions for the folders of attempts below a run root: JOB/attempt-FENCE, or JOB/attempt-FENCE-TOKEN if Redis
/// issued a fence twice. A folder that is being removed is first renamed to NAME.old-PID.foretime-tmp.
///
/// Each folder holds a mark, attempt.json, with its job, the identity of its queue and its name. Several queues may
/// share a run root and have equal job ids: no folder without the right mark is removed or resumed from.
namespace foretime::jobs {

/// Identifies the job that an attempt belongs to, and the job's queue.
struct AttemptOwner {
  std::string job;
  std::string queue;  // RedisQueue::identity
};

/// Holds the parts of the name of an attempt's folder.
struct AttemptName {
  std::string name;           // folder name without the suffix of a removal
  int64_t fence = 0;          // 0 or more
  bool half_removed = false;  // the name had the suffix of a removal
};
/// Returns the parts of an attempt folder's name; empty for any other name.
std::optional<AttemptName> parse_attempt_name(std::string_view name);

/// Writes the mark of an attempt's folder; the mark survives a loss of power. Throws FileError.
void mark_attempt(const std::filesystem::path& attempt, const AttemptOwner& owner);

/// Returns whether `folder` has the name and the mark of an attempt of `owner`; false for a symbolic link and for a
/// renamed copy. Throws StorageError if the storage fails.
bool is_attempt_of(const std::filesystem::path& folder, const AttemptOwner& owner);

/// Removes the folder of an attempt, so that other processes see it whole or not at all, also over NFS and after a loss
/// of power. Removes the mark last, by which the rest of an interrupted removal is recognised. Throws FileError.
void remove_attempt(const std::filesystem::path& attempt);

}  // namespace foretime::jobs
