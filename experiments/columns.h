#pragma once

#include <string>
#include <vector>

#include "experiments/results.h"

/// The columns of an experiment's main table. All functions return a value for each column, in their order, as they are
/// shown: times in milliseconds.
namespace foretime::experiments {

/// Predictions' values; NaN where a column's metric is not defined, or none of its groups is there.
std::vector<double> column_values(const Results& results, const Predictions& groups);
/// A trial's values, with those of the run itself (seconds, memory).
std::vector<double> column_values(const Results& results, const TrialResult& trial);
/// The values of an entry's seeds.
std::vector<Spread> column_spreads(const Results& results, size_t entry, double fraction);
/// The values of the seeds' joined predictions. NaN for fewer than two seeds, and for a column whose groups were not
/// measured on the same candidates with each of them, as where they are held out by seed.
std::vector<double> joined_columns(const Results& results, size_t entry, double fraction);
/// A reference's values: by the column's title, else by its metric where the column takes all groups.
std::vector<double> reference_columns(const Results& results, const Reference& reference);

std::string column_title(const Column& column, const TimeUnit& unit);

}  // namespace foretime::experiments
