#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

/// The folders of attempts below a run root: JOB/attempt-FENCE, or JOB/attempt-FENCE-TOKEN where Redis gave a fence out
/// twice. A folder that is being removed is first renamed to NAME.old-PID.foretime-tmp.
///
/// Each holds a mark, attempt.json, with its job, the identity of its queue and its own name. Several queues may share
/// a run root, where equal jobs have equal ids, and people keep notes and copies there: nothing without the right mark
/// is removed or resumed from.
namespace foretime::jobs {

/// The job that an attempt belongs to, and the queue that the job is in.
struct AttemptOwner {
  std::string job;
  std::string queue;  // RedisQueue::identity
};

struct AttemptName {
  std::string name;           // without the suffix of a removal
  int64_t fence = 0;          // 0 or more
  bool half_removed = false;  // whether the suffix of a removal followed
};
/// Returns empty for what is not exactly the name of an attempt's folder.
std::optional<AttemptName> parse_attempt_name(std::string_view name);

/// Writes the mark of an attempt's folder, which survives a loss of power. Throws FileError.
void mark_attempt(const std::filesystem::path& attempt, const AttemptOwner& owner);

/// Whether `folder` has the name and the mark of an attempt of `owner`. A link is none, and neither is a copy under
/// another name. Throws StorageError where the storage fails.
bool is_attempt_of(const std::filesystem::path& folder, const AttemptOwner& owner);

/// Removes an attempt so that others see it whole or not at all, also over NFS and after a loss of power. Its mark goes
/// last, so that the rest of an interrupted removal is recognised. Throws FileError.
void remove_attempt(const std::filesystem::path& attempt);

}  // namespace foretime::jobs
