#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "jobs/agent/attempt_folder.h"
#include "jobs/queue/job.h"
#include "jobs/queue/queue_reader.h"

namespace foretime::jobs {

/// How long attempts are kept that later ones have replaced.
struct AttemptRetention {
  int64_t keep = 1;                                       // of a job's replaced attempts, the newest ones
  std::chrono::seconds age = std::chrono::hours(24 * 7);  // younger ones are kept as well
  std::optional<std::chrono::seconds> forgotten = {};     // age at which those of forgotten jobs go; empty: they stay
};

inline std::chrono::seconds seconds_of_days(double days) {
  return std::chrono::seconds(static_cast<int64_t>(days * 24 * 3600));
}

/// Returns the attempts of a job of `queue` that may be removed, oldest first: folders that is_attempt_of() recognises.
/// A job that has not ended, or whose record is damaged, has none. Its newest attempt is never among them, nor the one
/// that holds its checkpoint, from which a retry or a dependent job continues, nor the one whose best checkpoint is the
/// best by the job's metric. The rest of an interrupted removal is among them. Throws FileError.
std::vector<std::filesystem::path> old_attempts(const std::filesystem::path& runs, const JobRecord& job,
                                                const std::string& queue, const AttemptRetention& retention,
                                                std::filesystem::file_time_type now);

/// Returns all attempts of a job that its queue has forgotten, oldest first, where nothing was written to any of them
/// within `age`. Throws FileError.
std::vector<std::filesystem::path> forgotten_attempts(const std::filesystem::path& runs, const AttemptOwner& owner,
                                                      std::chrono::seconds age, std::filesystem::file_time_type now);

/// What clean_attempts did, for people and tests.
struct CleanedAttempts {
  std::vector<std::filesystem::path> removed;
  std::vector<std::string> kept;  // what could not be removed, and why
};

/// Called by `foretime clean`, and by agents that are told to: what was trained goes only when its owner says so.
/// Looks at every job that has a folder below the run root and that the queue knows or, where `retention` says so, has
/// forgotten. A queue without an identity has forgotten none. Jobs of which another job that has not ended needs the
/// result are left alone, and each record is read again just before its attempts go. A folder is renamed before its
/// files are removed, so that others see it whole or not at all, also over NFS and after a loss of power. `remove`
/// false: only says what would go. Ends early where `stop` says so. Throws like QueueReader, and FileError where the
/// run root cannot be listed.
CleanedAttempts clean_attempts(
    const std::filesystem::path& runs, QueueReader& reader, const AttemptRetention& retention, bool remove,
    const std::function<bool()>& stop = [] { return false; });

/// Whether it is time for an agent to clean a run root: no agent has within the hour (`.cleaned` there, which this
/// renews). Throws FileError.
bool may_clean(const std::filesystem::path& runs, std::filesystem::file_time_type now);

}  // namespace foretime::jobs
