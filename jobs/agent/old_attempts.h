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

/// Sets how long attempts are kept after later ones have replaced them.
struct AttemptRetention {
  int64_t keep = 1;  // number of replaced attempts kept for each job, the newest ones
  std::chrono::seconds age = std::chrono::hours(24 * 7);  // younger attempts are kept as well
  std::optional<std::chrono::seconds> forgotten =
      {};  // age at which attempts of forgotten jobs are removed; empty: never
};

inline std::chrono::seconds seconds_of_days(double days) {
  return std::chrono::seconds(static_cast<int64_t>(days * 24 * 3600));
}

/// Returns the attempts of a job of `queue` that may be removed, oldest first: folders that is_attempt_of() recognises,
/// and the rest of an interrupted removal. Returns none for a job that has not ended or whose record is damaged. Never
/// returns the newest attempt, the one with the job's checkpoint, from which a retry or a dependent job continues, or
/// the one with the best checkpoint by the job's metric. Throws FileError.
std::vector<std::filesystem::path> old_attempts(const std::filesystem::path& runs, const JobRecord& job,
                                                const std::string& queue, const AttemptRetention& retention,
                                                std::filesystem::file_time_type now);

/// Returns all attempts of a job that its queue has forgotten, oldest first, if nothing was written to any of them
/// within `age`; otherwise none. Throws FileError.
std::vector<std::filesystem::path> forgotten_attempts(const std::filesystem::path& runs, const AttemptOwner& owner,
                                                      std::chrono::seconds age, std::filesystem::file_time_type now);

/// Lists what clean_attempts removed and kept.
struct CleanedAttempts {
  std::vector<std::filesystem::path> removed;
  std::vector<std::string> kept;  // attempts that could not be removed, each with the reason
};

/// Removes old attempts. Called by `foretime clean`, and by agents that are configured to clean: only the owner decides
/// to remove training results. Looks at every job with a folder below the run root that the queue knows or, if
/// `retention` allows it, has forgotten. A queue without an identity has forgotten none. Skips jobs whose result an
/// unfinished job needs, and reads each record again just before its attempts are removed. Renames a folder before its
/// files are removed, so that other processes see it whole or not at all, also over NFS and after a loss of power. With
/// `remove` false, only returns the attempts that would be removed. Ends early when `stop` returns true. Throws the
/// errors of QueueReader, and FileError if the run root cannot be listed.
CleanedAttempts clean_attempts(
    const std::filesystem::path& runs, QueueReader& reader, const AttemptRetention& retention, bool remove,
    const std::function<bool()>& stop = [] { return false; });

/// Returns whether an agent should clean a run root now: no agent has done so within the hour. If so, renews the time
/// stamp `.cleaned` in the run root. Throws FileError.
bool may_clean(const std::filesystem::path& runs, std::filesystem::file_time_type now);

}  // namespace foretime::jobs
