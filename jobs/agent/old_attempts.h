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

/// Sets which attempts are kept after later ones have replaced them. Ages count from the last write to an attempt.
struct AttemptRetention {
  int64_t keep = 1;                                       // number of the newest replaced attempts kept for each job
  std::chrono::seconds age = std::chrono::hours(24 * 7);  // younger attempts are kept as well
  std::optional<std::chrono::seconds> forgotten{};  // age at which attempts of forgotten jobs are removed; empty: never
};

inline std::chrono::seconds seconds_of_days(double days) {
  return std::chrono::seconds(static_cast<int64_t>(days * 24 * 3600));
}

/// Returns the attempts of a job of `queue` that may be removed, oldest first, after the rests of interrupted removals.
/// Returns none for a job that has not ended or whose record is damaged. Never returns the newest attempt, the one with
/// the job's checkpoint, or the one with the best checkpoint. Throws FileError.
std::vector<std::filesystem::path> old_attempts(const std::filesystem::path& runs, const JobRecord& job,
                                                const std::string& queue, const AttemptRetention& retention,
                                                std::filesystem::file_time_type now);

/// Returns all attempts of a job that its queue has forgotten, oldest first, if nothing was written to any of them
/// within `age`; otherwise none. Throws FileError.
std::vector<std::filesystem::path> forgotten_attempts(const std::filesystem::path& runs, const AttemptOwner& owner,
                                                      std::chrono::seconds age, std::filesystem::file_time_type now);

/// Lists the attempts that clean_attempts() removed, or would remove, and those that it could not.
struct CleanedAttempts {
  std::vector<std::filesystem::path> removed;  // folders of attempts
  std::vector<std::string> kept;               // attempts that could not be removed, each with the reason
};

/// Removes old_attempts() of every job with a folder below the run root that the queue knows, and forgotten_attempts()
/// of jobs that it has forgotten, if `retention.forgotten` is set. Does nothing for a queue without an identity. Skips
/// jobs whose result an unfinished job needs, and reads each record again just before an attempt is removed
/// (remove_attempt). With `remove` false, only returns the attempts that would be removed. Ends early when `stop`
/// returns true. Throws the errors of QueueReader, FileError if the run root cannot be listed, and StorageError.
CleanedAttempts clean_attempts(
    const std::filesystem::path& runs, QueueReader& reader, const AttemptRetention& retention, bool remove,
    const std::function<bool()>& stop = [] { return false; });

/// Returns whether an agent should clean a run root now: the file `.cleaned` in the run root is missing or was not
/// written within the last hour. If so, writes that file. Throws FileError.
bool begin_cleaning(const std::filesystem::path& runs, std::filesystem::file_time_type now);

}  // namespace foretime::jobs
