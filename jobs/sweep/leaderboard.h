#pragma once

#include <optional>
#include <string>
#include <vector>

#include "jobs/queue/job.h"

namespace foretime::jobs {

/// One line of a leaderboard: a trial, or several that differ in their seed alone.
struct LeaderboardRow {
  std::vector<JobRecord> trials;  // best first
  std::optional<double> value;    // the metric, or its mean over the trials that have it
  double spread = 0;              // sample standard deviation; 0 for fewer than two
  size_t counted = 0;             // trials with a value
  Parameters parameters;          // swept; without the seed where trials are joined
};

/// The metric of a trial: of its final evaluation where it ended by itself, else the best that was seen of its own
/// objective, or the last of any other metric. Empty where there is none.
std::optional<double> metric_of(const JobRecord& job, const std::string& metric);

/// Training jobs by their metric, best first, those without a value last and then by trial. `join_seeds` joins trials
/// whose parameters are equal but for trainer.seed.
std::vector<LeaderboardRow> leaderboard_rows(const std::vector<JobRecord>& jobs, const std::string& metric,
                                             bool maximize, bool join_seeds);

}  // namespace foretime::jobs
