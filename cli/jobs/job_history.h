#pragma once

#include <filesystem>
#include <string>

#include "history/history.h"
#include "jobs/queue/job.h"

namespace foretime::cli {

/// Holds a job's history and its source.
struct JobHistory {
  history::History history;
  std::string source;  // text for people
};

/// Returns the measurements of all attempts of a job: from the job's folder in the run root if it can be read and is as
/// new as the record in Redis, otherwise the thinned and rounded history in Redis. Throws history::HistoryError if only
/// the latter exists and is damaged.
JobHistory history_of(const jobs::JobRecord& job, const std::filesystem::path& runs);

}  // namespace foretime::cli
