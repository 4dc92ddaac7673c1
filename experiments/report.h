#pragma once

#include <filesystem>
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

/// Every trial's value of every metric: entry, kind, fraction, seed, metric, unit, value. Rows with the seed `joined`
/// are those of the seeds' joined predictions, rows of kind `reference` those of references and second measurements.
std::string results_csv(const Results& results);
/// The results of single groups, a row each: entry, fraction, seed, group, candidates, then the metrics. Times are in
/// the unit of the header.
std::string groups_csv(const Results& results);
/// What the trials with all training data predict: entry, seed, group, id, score, predicted, measured, in the unit of
/// the run times.
std::string predictions_csv(const Results& results);

/// The experiment's columns: entry, kind, fraction, seed, column, metric, set, value.
std::string columns_csv(const Results& results);

/// Entries by columns, with all training data: mean ± deviation over the seeds; then references.
std::vector<std::vector<std::string>> metrics_table(const Results& results);
/// Entries by shares of the training data, of the experiment's first metric.
std::vector<std::vector<std::string>> shares_table(const Results& results);
/// Groups, or classes of groups where the experiment names them, by entries, of one metric with all training data.
std::vector<std::vector<std::string>> groups_table(const Results& results, const std::string& metric);
/// The rows as a Markdown table.
std::string markdown(const std::vector<std::vector<std::string>>& rows);

/// ", variant NAME", which says of quick that it is a smoke test; empty without a variant.
std::string variant_text(const std::string& variant);

/// summary.md: what was done, the tables, and what is missing.
std::string summary_md(const Results& results, const std::vector<std::string>& figures);

/// Names of classes with the groups of each, in the file's order; without classes every group stands for itself.
/// Groups that no class has are one named "other".
std::vector<std::pair<std::string, std::vector<std::string>>> classes_of(const Results& results);
/// A metric averaged over the groups of a class in each trial, then over seeds.
Spread class_spread(const Results& results, size_t entry, double fraction, const std::string& metric,
                    const std::vector<std::string>& groups);

/// The second measurement of some groups; empty where there is none.
Metrics class_ceiling(const Results& results, const std::vector<std::string>& groups);

/// One SVG of the experiment; empty where no trial gives it a point.
std::string draw_figure(const Results& results, const FigureSpec& figure);

/// Writes results.csv, groups.csv, predictions.csv, columns.csv where the file names columns, summary.md and the
/// figures into `out`; returns their names.
std::vector<std::string> write_report(const Results& results, const std::filesystem::path& out);

}  // namespace foretime::experiments
