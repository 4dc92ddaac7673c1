#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiments/results.h"

/// Computes the columns of an experiment's main table. All functions return one value for each column, in order, in
/// display units: times in milliseconds.
namespace foretime::experiments {

/// Returns the values of predictions; NaN if a column's metric is undefined or none of its groups exists.
std::vector<double> column_values(const Results& results, const Predictions& groups);
/// Returns the values of a trial, including those of its run (seconds, memory).
std::vector<double> column_values(const Results& results, const TrialResult& trial);
/// Returns the spread over an entry's seeds.
std::vector<Spread> column_spreads(const Results& results, size_t entry, double fraction);
/// Returns the values of the seeds' joined predictions. NaN for fewer than two seeds, and for a column whose groups
/// were not evaluated on the same candidates with each seed, for example if they are held out by seed.
std::vector<double> joined_columns(const Results& results, size_t entry, double fraction);
/// Returns a reference's values: by the column's title, or by its metric if the column covers all groups.
std::vector<double> reference_columns(const Results& results, const Reference& reference);

std::string column_title(const Column& column, const TimeUnit& unit);

/// Returns the experiment's columns as CSV: entry, kind, fraction, seed, column, metric, set, value.
std::string columns_csv(const Results& results);

/// Returns entries by columns, with all training data: mean ± deviation over the seeds; then references.
std::vector<std::vector<std::string>> metrics_table(const Results& results);
/// Returns the experiment's first metric for entries by shares of the training data.
std::vector<std::vector<std::string>> shares_table(const Results& results);
/// Returns the rows as a Markdown table.
std::string markdown(const std::vector<std::vector<std::string>>& rows);

/// Returns ", variant NAME", for quick with a note that it is a smoke test; empty without a variant.
std::string variant_text(const std::string& variant);

/// Returns the names of classes with the groups of each, in the file's order; without classes every group is one class.
/// Groups outside of all classes form one named "other".
std::vector<std::pair<std::string, std::vector<std::string>>> classes_of(const Results& results);
/// Returns the spread over seeds of a metric, averaged in each trial over the groups of a class.
Spread class_spread(const Results& results, size_t entry, double fraction, const std::string& metric,
                    const std::vector<std::string>& groups);

/// Returns the metrics of the second measurement of some groups; empty if there is none.
Metrics class_ceiling(const Results& results, const std::vector<std::string>& groups);

/// Throws OutputRefused if a file that the reports or the trials without a model would replace is of another kind
/// (base/output_target.h); with `force` only if it is a folder.
void expect_replaceable_report(const Experiment& experiment, const std::vector<Trial>& trials,
                               const std::filesystem::path& out, bool force);

/// Writes results.csv, groups.csv, predictions.csv, columns.csv if the file lists columns, and summary.md
/// into `out`; returns their names.
std::vector<std::string> write_report(const Results& results, const std::filesystem::path& out);

/// Holds the contest's lines of the unlabelled test groups, from the best entry of an experiment.
struct Submission {
  std::string entry;                                       // label of the entry
  size_t seeds = 0;                                        // number of joined seeds
  std::vector<std::pair<std::string, std::string>> lines;  // ID ("layout:xla:default:name") and the whole line
};

/// Returns the submission of the learned entry whose first column has the best mean over its seeds, with all training
/// data. Empty if the experiment requests none or no such entry has a value. Throws data::DataError if its runs ranked
/// no unlabelled groups or different ones with each seed, or if a group's collection is unknown.
Submission make_submission(const Results& results, const std::vector<Trial>& trials);

/// Returns the text of submission.csv: a header and the lines of all parts. The first of several lines with one ID is
/// kept.
std::string submission_text(const std::vector<Submission>& parts);

/// Holds the results of one part of an experiment's file, or of a file without parts.
struct PartReport {
  Results results;
  Submission submission;
};

/// Writes the tables and, if requested, submission.csv of a part into `out`, and prints its table. Throws the
/// errors of write_report and make_submission.
PartReport report_part(Results results, const std::vector<Trial>& trials, const std::filesystem::path& out);

/// Writes summary.md with the main tables of all parts, and submission.csv with all lines, into `out`; for a file with
/// parts. `left_out` lists the reasons of skipped parts.
void report_file(const ExperimentFile& file, const std::vector<PartReport>& parts,
                 const std::vector<std::string>& left_out, const std::filesystem::path& out);

}  // namespace foretime::experiments
