#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/jobs/queue_access.h"

/// Changes the queue for a command or a page. Ids may be the beginning of one. All functions throw jobs::JobRefused for
/// an unknown id or an impossible change, and the errors of Redis.
namespace foretime::cli {

/// Reports a change: one line for people, and warnings about its impossible parts.
struct Change {
  std::string text;
  std::vector<std::string> warnings = {};
};

/// Cancels a job, or all jobs of a sweep; running ones end after a checkpoint.
Change cancel(QueueAccess& access, const std::string& id);
/// Returns the full id of the sweep to pause or resume (`verb`, for messages); empty for an empty `id`. Throws
/// JobRefused for a job.
std::string sweep_to_pause(QueueAccess& access, const std::string& id, const char* verb);
/// Pauses a sweep, so that no more of its jobs start; an empty `id` is the whole queue.
Change pause(QueueAccess& access, const std::string& id);
/// Resumes a paused sweep; an empty `id` is the whole queue.
Change resume(QueueAccess& access, const std::string& id);
/// Makes a failed, dead or cancelled job wait again, or all such jobs of a sweep.
Change retry(QueueAccess& access, const std::string& id);
/// Sets the priority of a job, or of all unfinished jobs of a sweep. `priority` is within ±jobs::Limits::kPriority.
Change set_priority(QueueAccess& access, const std::string& id, int64_t priority);

}  // namespace foretime::cli
