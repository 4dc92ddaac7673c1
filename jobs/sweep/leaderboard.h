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
  std::optional<double> value;    // the metric, or its mean over the trials that have it; empty: no trial has it
  double spread = 0;              // sample standard deviation of the metric; 0 for fewer than two values
  size_t counted = 0;             // number of trials that have the metric
  Parameters parameters;          // swept parameters; without the seed for joined trials
};

/// Returns the finite value of a metric of a trial; empty if there is none or the record is damaged. For the trial's
/// objective, this is the value of the final evaluation if the trial succeeded without early stopping, and else the
/// best value; each replaces the other if that is missing. For another metric, it is the last value.
std::optional<double> metric_of(const JobRecord& job, const std::string& metric);

/// Holds the value that ranks a trial, read without the rest of the trial's record.
struct Standing {
  uint32_t index = 0;             // index of the trial in the caller's list of ids
  std::optional<double> value{};  // result of metric_of(); empty: none
};

/// Returns the names of the fields of a job's hash that `standing_of` takes, in this order.
std::vector<std::string> standing_fields();
/// Returns the standing of a trial from the texts of its standing_fields(). Empty for a job that is not a training;
/// without a value if the kind is damaged.
std::optional<Standing> standing_of(uint32_t index, const std::vector<std::string_view>& values,
                                    const std::string& metric);
/// Returns the finite number of key `name` in a JSON object of numbers as the queue writes it; empty without one.
std::optional<double> number_in(std::string_view object, const std::string& name);

/// Holds one row of a leaderboard by indices: one trial, or several trials that differ only in their seed.
struct RankedRow {
  std::vector<uint32_t> trials{};  // Standing::index of each trial, in the order of the standings
  std::optional<double> value{};   // the metric, or its mean over the trials that have it; empty: no trial has it
};
/// Returns the rows, best first and rows without a value last; equal rows keep the order of `standings`. Standings i
/// and j with join[i] = join[j] form one row; an empty `join` joins none.
std::vector<RankedRow> ranked_rows(const std::vector<Standing>& standings, const std::vector<uint32_t>& join,
                                   bool maximize);

/// Returns the training jobs among `jobs` by their metric, best first and jobs without a value last; equal rows keep
/// the order of `jobs`. With `join_seeds`, trials whose parameters differ only in trainer.seed form one row.
std::vector<LeaderboardRow> leaderboard_rows(const std::vector<JobRecord>& jobs, const std::string& metric,
                                             bool maximize, bool join_seeds);

}  // namespace foretime::jobs
