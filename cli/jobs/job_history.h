#pragma once

#include <filesystem>
#include <string>

#include "history/history.h"
#include "jobs/queue/job.h"

namespace foretime::cli {

/// Holds a job's history and where it was read.
struct JobHistory {
  history::History history;
  std::string source;  // text for people: the folder of the job, or "Redis (thinned and rounded)"
};

/// Returns the measurements of all attempts of a job. They come from the job's folder in `runs` if that can be read and
/// its last step is not before that in Redis, otherwise from the record in Redis. Throws history::HistoryError if only
/// the record is left and its history is damaged.
JobHistory history_of(const jobs::JobRecord& job, const std::filesystem::path& runs);

}  // namespace foretime::cli
