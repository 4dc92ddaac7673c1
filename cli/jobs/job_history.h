#pragma once

#include <filesystem>
#include <string>

#include "history/history.h"
#include "jobs/queue/job.h"

namespace foretime::cli {

struct JobHistory {
  history::History history;
  std::string source;  // where it was read, for people
};

/// What all attempts of a job measured: all of it where the job's folder in the run root is reached and is as new as
/// what Redis has, else what Redis has, which is thinned and rounded. Throws
/// history::HistoryError where only the latter is there and it is damaged.
JobHistory history_of(const jobs::JobRecord& job, const std::filesystem::path& runs);

}  // namespace foretime::cli
