#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiments/results.h"

namespace foretime::experiments {

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
