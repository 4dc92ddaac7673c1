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

/// The experiment's columns: entry, kind, fraction, seed, column, metric, set, value.
std::string columns_csv(const Results& results);

/// Entries by columns, with all training data: mean ± deviation over the seeds; then references.
std::vector<std::vector<std::string>> metrics_table(const Results& results);
/// Entries by shares of the training data, of the experiment's first metric.
std::vector<std::vector<std::string>> shares_table(const Results& results);
/// The rows as a Markdown table.
std::string markdown(const std::vector<std::vector<std::string>>& rows);

/// ", variant NAME", which says of quick that it is a smoke test; empty without a variant.
std::string variant_text(const std::string& variant);

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

/// Throws OutputRefused where a file that the reports or the trials without a model would replace is of another kind
/// (base/output_target.h). `force`: only where it is a folder.
void expect_replaceable_report(const Experiment& experiment, const std::vector<Trial>& trials,
                               const std::filesystem::path& out, bool force);

/// Writes results.csv, groups.csv, predictions.csv, columns.csv where the file names columns, summary.md and the
/// figures into `out`; returns their names.
std::vector<std::string> write_report(const Results& results, const std::filesystem::path& out);

/// The contest's lines of the unlabelled test groups, by the best entry of an experiment.
struct Submission {
  std::string entry;                                       // its label
  size_t seeds = 0;                                        // whose predictions are joined
  std::vector<std::pair<std::string, std::string>> lines;  // ID ("layout:xla:default:name") and the whole line
};

/// Of the entries that learn, the one whose first column is best in the mean over its seeds, with all training data.
/// Empty where the experiment asks for none, or no such entry has a value. Throws data::DataError where its runs ranked
/// no unlabelled groups, or other ones with each seed, or where a group's collection is not known.
Submission make_submission(const Results& results, const std::vector<Trial>& trials);

/// The file: a header and the lines of some parts. Of lines with one ID the first counts, a part's being named earlier.
std::string submission_text(const std::vector<Submission>& parts);

/// What is known of one part of an experiment's file, or of a file without parts.
struct PartReport {
  Results results;
  Submission submission;
};

/// Writes the tables, figures and, where it asks for one, submission.csv of a part into `out`, and prints its table.
/// Throws as write_report and make_submission.
PartReport report_part(Results results, const std::vector<Trial>& trials, const std::filesystem::path& out);

/// summary.md with the main tables of all parts, and submission.csv with the lines of all, in `out`; for a file with
/// parts. `left_out`: why parts are not among them.
void report_file(const ExperimentFile& file, const std::vector<PartReport>& parts,
                 const std::vector<std::string>& left_out, const std::filesystem::path& out);

}  // namespace foretime::experiments
