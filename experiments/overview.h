#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiments/results.h"
#include "experiments/submission_file.h"

namespace foretime::experiments {

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
