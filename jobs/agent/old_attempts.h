#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "jobs/queue/job.h"
#include "jobs/queue/queue_reader.h"

namespace foretime::jobs {

/// How long attempts are kept that later ones have replaced.
struct AttemptRetention {
  int64_t keep = 1;                                       // of a job's replaced attempts, the newest ones
  std::chrono::seconds age = std::chrono::hours(24 * 7);  // younger ones are kept as well
};

/// The attempts of a job below the run root that may be removed, oldest first. None of a job that has not ended or
/// whose record is damaged. Never its newest attempt, the one that its checkpoint lies in, from which a retry or a
/// dependent job goes on, or the one whose best checkpoint is the best by the job's metric. Where one was removed by
/// halves (foretime-tmp), the rest is among them. Throws FileError.
std::vector<std::filesystem::path> old_attempts(const std::filesystem::path& runs, const JobRecord& job,
                                                const AttemptRetention& retention, std::filesystem::file_time_type now);

/// What clean_attempts did, for people and tests.
struct CleanedAttempts {
  std::vector<std::filesystem::path> removed;
  std::vector<std::string> kept;  // what could not be removed, and why
};

/// Called by `foretime clean`, never by agents: what was trained goes only when its owner says so.
/// Looks at every job that has a folder below the run root and that the queue knows. Jobs of which another job that has
/// not ended needs the result are left alone, and each record is read again just before its attempts go. A folder is
/// renamed before its files are removed, so that others see it whole or not at all, also over NFS and after a loss of
/// power. `remove` false: only says what would go. Throws like QueueReader, and FileError where the run root cannot be
/// listed.
CleanedAttempts clean_attempts(const std::filesystem::path& runs, QueueReader& reader,
                               const AttemptRetention& retention, bool remove);

}  // namespace foretime::jobs
