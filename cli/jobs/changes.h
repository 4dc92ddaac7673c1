#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/jobs/queue_access.h"

/// What people change in a queue, from a command or a page. Ids may be the first digits of one. Each throws
/// jobs::JobRefused for what is unknown or cannot be done, and the errors of Redis.
namespace foretime::cli {

/// What was done, in a line for people, and what was not.
struct Change {
  std::string text;
  std::vector<std::string> warnings = {};
};

/// A job, or all jobs of a sweep; those that run end after a checkpoint.
Change cancel(QueueAccess& access, const std::string& id);
/// The full id of the sweep that is to be paused or resumed (`verb`); JobRefused for a job. Empty for an empty `id`.
std::string sweep_to_pause(QueueAccess& access, const std::string& id, const char* verb);
/// Starts no more jobs of a sweep, or undoes that; an empty `id` is the whole queue.
Change pause(QueueAccess& access, const std::string& id);
Change resume(QueueAccess& access, const std::string& id);
/// A failed, dead or cancelled job waits again, or all such jobs of a sweep.
Change retry(QueueAccess& access, const std::string& id);
/// Of a job, or of all jobs of a sweep that have not ended. `priority` is within ±jobs::Limits::kPriority.
Change set_priority(QueueAccess& access, const std::string& id, int64_t priority);

}  // namespace foretime::cli
