#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jobs/queue/job.h"

namespace foretime::jobs {

/// Holds one row of a leaderboard: a trial, or several trials that differ only in their seed.
struct LeaderboardRow {
  std::vector<JobRecord> trials;  // best first
  std::optional<double> value;    // the metric, or its mean over the trials that have it
  double spread = 0;              // sample standard deviation; 0 for fewer than two
  size_t counted = 0;             // trials with a value
  Parameters parameters;          // swept parameters; without the seed for joined trials
};

/// Returns the metric of a trial: from its final evaluation if the trial ended by itself, otherwise its best value for
/// the trial's objective, or its last value for another metric; empty if there is none.
std::optional<double> metric_of(const JobRecord& job, const std::string& metric);

/// Holds the values that rank a trial, read without the rest of its record.
struct Standing {
  uint32_t index = 0;  // index in the list of ids
  std::optional<double> value{};
};

/// Returns the names of the fields of a job's hash that `standing_of` takes, in this order.
std::vector<std::string> standing_fields();
/// Returns the standing of a trial from the values of standing_fields(); its value is that of metric_of(). Empty for a
/// job that is not a training.
std::optional<Standing> standing_of(uint32_t index, const std::vector<std::string_view>& values,
                                    const std::string& metric);
/// Returns the number named `name` in a JSON object of numbers written by the queue; empty if there is none.
std::optional<double> number_in(std::string_view object, const std::string& name);

/// Holds one row of a leaderboard by indices: one trial, or several trials that differ only in their seed.
struct RankedRow {
  std::vector<uint32_t> trials{};  // indices into the standings, by trial
  std::optional<double> value{};   // the metric, or its mean over the trials that have it
};
/// Returns the rows, best first, rows without a value last, ties by trial. Standings with equal `join` values are
/// joined into one row; an empty `join` joins none.
std::vector<RankedRow> ranked_rows(const std::vector<Standing>& standings, const std::vector<uint32_t>& join,
                                   bool maximize);

/// Returns training jobs by their metric, best first, jobs without a value last, ties by trial. `join_seeds` joins
/// trials whose parameters differ only in trainer.seed.
std::vector<LeaderboardRow> leaderboard_rows(const std::vector<JobRecord>& jobs, const std::string& metric,
                                             bool maximize, bool join_seeds);

}  // namespace foretime::jobs
