#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
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

/// What ranks a trial, read without the rest of its record.
struct Standing {
  uint32_t index = 0;  // in the list of ids
  std::optional<double> value{};
};

/// The fields of a job's hash that `standing_of` takes, in this order, and the metric as metric_of gives it. Empty for
/// what is no training.
std::vector<std::string> standing_fields();
std::optional<Standing> standing_of(uint32_t index, const std::vector<std::string_view>& values,
                                    const std::string& metric);
/// The number of a name in a JSON object of numbers, as the queue writes it.
std::optional<double> number_in(std::string_view object, const std::string& name);

/// A place on a leaderboard: one trial, or several that differ in their seed alone.
struct RankedRow {
  std::vector<uint32_t> trials{};  // indices, by trial
  std::optional<double> value{};   // the metric, or its mean over the trials that have it
};
/// Best first, those without a value last, equals by trial. `join[i]` says which of the standings are of one
/// configuration; empty: each is alone.
std::vector<RankedRow> ranked_rows(const std::vector<Standing>& standings, const std::vector<uint32_t>& join,
                                   bool maximize);

/// Training jobs by their metric, best first, those without a value last and then by trial. `join_seeds` joins trials
/// whose parameters are equal but for trainer.seed.
std::vector<LeaderboardRow> leaderboard_rows(const std::vector<JobRecord>& jobs, const std::string& metric,
                                             bool maximize, bool join_seeds);

}  // namespace foretime::jobs
