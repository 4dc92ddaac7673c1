#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/jobs/queue_access.h"

/// Changes of the queue for a command or a page. An id may be the unique beginning of one. All functions throw
/// jobs::JobRefused for an unknown id and for an impossible change of one job, and the errors of Redis.
namespace foretime::cli {

/// Reports a change.
struct Change {
  std::string text;                        // text for people on one line
  std::vector<std::string> warnings = {};  // parts of the change that were impossible
};

/// Cancels a job, or all jobs of a sweep that have not ended. A running job ends after a checkpoint.
Change cancel(QueueAccess& access, const std::string& id);
/// Returns the full id of a sweep; "" for "". Throws JobRefused for a job. `verb`, for messages, is pause or resume.
std::string sweep_to_pause(QueueAccess& access, const std::string& id, const char* verb);
/// Pauses a sweep, or the whole queue if `id` is empty, so that no more of its jobs start. Running jobs continue.
Change pause(QueueAccess& access, const std::string& id);
/// Resumes a paused sweep, or the whole queue if `id` is empty.
Change resume(QueueAccess& access, const std::string& id);
/// Makes a failed, dead or cancelled job, or all such jobs of a sweep, wait again. Warns of refused jobs of a sweep.
Change retry(QueueAccess& access, const std::string& id);
/// Sets the priority of a job, or of all jobs of a sweep that have not ended. `priority` is from
/// -jobs::Limits::kPriority to jobs::Limits::kPriority.
Change set_priority(QueueAccess& access, const std::string& id, int64_t priority);

}  // namespace foretime::cli
