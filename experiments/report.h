#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiments/results.h"

/// Makes the tables and files of an experiment's results. The functions of columns return one value for each column of
/// the main table, in this order; times are in milliseconds.
namespace foretime::experiments {

/// Returns the values over `groups`; NaN if the metric is undefined or the column has none of the groups.
std::vector<double> column_values(const Results& results, const Predictions& groups);
/// Returns the values of a trial, including the metrics of its run (seconds, memory).
std::vector<double> column_values(const Results& results, const TrialResult& trial);
/// Returns the spread of each column over the seeds of an entry with one share of training data, without NaN values.
std::vector<Spread> column_spreads(const Results& results, size_t entry, double fraction);
/// Returns the columns of the joined predictions of an entry's seeds; NaN for fewer than two seeds, and for a column
/// whose groups were not evaluated on the same candidates with each seed, for example if each seed holds out others.
std::vector<double> joined_columns(const Results& results, size_t entry, double fraction);
/// Returns a reference's value for each column's title, else for the metric if the column has all groups, else NaN.
std::vector<double> reference_columns(const Results& results, const Reference& reference);

/// Returns the title of a column, by default that of the metric with the unit.
std::string column_title(const Column& column, const TimeUnit& unit);

/// Returns defined values of trials and joined seeds as CSV: entry, kind, fraction, seed, column, metric, set, value.
std::string columns_csv(const Results& results);

/// Returns the main table, the header first: the columns of each entry with the largest share of training data, as mean
/// ± deviation over the seeds, and of its joined seeds; then of second measurements and references.
std::vector<std::vector<std::string>> metrics_table(const Results& results);
/// Returns the table of the experiment's first metric, the header first: a row for each entry, a column for each share.
std::vector<std::vector<std::string>> shares_table(const Results& results);
/// Returns the rows, the first of which is the header, as a Markdown table.
std::string markdown(const std::vector<std::vector<std::string>>& rows);

/// Returns ", variant NAME", with a note that it is a smoke test for the variant quick; "" without a variant.
std::string variant_text(const std::string& variant);

/// Returns the names of the classes with the groups of each, in the file's order. A group is in the first class that
/// matches, else in "other" at the end. Classes without groups are omitted. Without classes every group is a class.
std::vector<std::pair<std::string, std::vector<std::string>>> classes_of(const Results& results);
/// Returns the spread of `metric` over an entry's seeds, over the groups `groups` (GroupPredictions::group).
Spread class_spread(const Results& results, size_t entry, double fraction, const std::string& metric,
                    const std::vector<std::string>& groups);

/// Returns the metrics of the second measurement (Results::ceiling) over the groups `groups`; empty if there is none.
Metrics class_ceiling(const Results& results, const std::vector<std::string>& groups);

/// Throws OutputRefused if a file in `out` that a report would replace, or a rankings.csv of a trial that trains no
/// model, is of another kind (base/output_target.h); with `force` only if it is a folder.
void expect_replaceable_report(const Experiment& experiment, const std::vector<Trial>& trials,
                               const std::filesystem::path& out, bool force);

/// Writes results.csv, groups.csv, predictions.csv, summary.md and, if the experiment has the key columns, columns.csv
/// into the folder `out`, which is made if necessary. Returns the names of the written files.
std::vector<std::string> write_report(const Results& results, const std::filesystem::path& out);

/// Holds the lines for the TpuGraphs contest: one for each test group without run times, from the best entry.
struct Submission {
  std::string entry;                                       // label of the best entry; "": there is no submission
  size_t seeds = 0;                                        // number of joined seeds
  std::vector<std::pair<std::string, std::string>> lines;  // ID ("layout:xla:default:name") and the whole line
};

/// Returns the submission of the learned entry whose first column has the best mean over its seeds with the largest
/// share of training data; empty if none is requested or no learned entry has a value. Throws DataError if the
/// entry's runs ranked no test groups without run times, or different ones by seed, or a group's collection is unknown.
Submission make_submission(const Results& results, const std::vector<Trial>& trials);

/// Returns the text of submission.csv: a header and the lines of all parts, without further lines of the same ID.
std::string submission_text(const std::vector<Submission>& parts);

/// Holds the results of one part of an experiment's file, or of a file without parts.
struct PartReport {
  Results results;
  Submission submission;
};

/// Writes the files of write_report and, if there is a submission, submission.csv into `out`, and prints the tables on
/// stdout. Writes no file if no trial is complete. Throws as write_report and make_submission do.
PartReport report_part(Results results, const std::vector<Trial>& trials, const std::filesystem::path& out);

/// Writes summary.md with the main tables of all parts into `out`, and submission.csv with all lines if a part has a
/// submission; for a file with parts. `left_out` holds a sentence for each skipped part.
void report_file(const ExperimentFile& file, const std::vector<PartReport>& parts,
                 const std::vector<std::string>& left_out, const std::filesystem::path& out);

}  // namespace foretime::experiments
