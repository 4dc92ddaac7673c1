#include "experiments/overview.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/atomic_file.h"
#include "base/text.h"
#include "experiments/report.h"

namespace foretime::experiments {
namespace {

std::string heading(const Results& results) {
  return fmt::format("with {:.4g} % of the training data; {} of {} trials", 100 * results.whole(), results.complete,
                     results.expected);
}

std::string submission_note(const Submission& submission) {
  return fmt::format("submission.csv has {} graphs by {}, the best of the first column{}.", submission.lines.size(),
                     submission.entry,
                     submission.seeds > 1 ? fmt::format(", its {} seeds joined", submission.seeds) : "");
}

}  // namespace

PartReport report_part(Results results, const std::vector<Trial>& trials, const std::filesystem::path& out) {
  const auto& experiment = results.experiment;
  const auto part = experiment.part.empty() ? "" : experiment.part + ": ";
  if (results.trials.empty()) {
    fmt::print("{}no trial is complete; nothing to report\n", part);
    return {std::move(results), {}};
  }
  auto submission = make_submission(results, trials);
  if (!submission.entry.empty()) results.note = submission_note(submission);
  auto files = write_report(results, out);
  if (!submission.entry.empty()) {
    write_file_atomically(out / "submission.csv", submission_text({submission}));
    files.emplace_back("submission.csv");
  }
  fmt::print("\n{}{}\n\n{}\n{}", part, experiment.title, heading(results), format_table(metrics_table(results)));
  if (experiment.fractions.size() > 1)
    fmt::print("\nby share of the training data\n{}", format_table(shares_table(results)));
  if (!results.note.empty()) fmt::print("\n{}\n", results.note);
  fmt::print("\n{}: {}\n", out.string(), fmt::join(files, ", "));
  return {std::move(results), std::move(submission)};
}

void report_file(const ExperimentFile& file, const std::vector<PartReport>& parts,
                 const std::vector<std::string>& left_out, const std::filesystem::path& out) {
  std::string text = fmt::format("# {}\n\n", file.title);
  if (!file.description.empty()) text += file.description + "\n\n";
  text += fmt::format("`{}`{}. ± is the sample standard deviation over seeds.\n\n", file.origin,
                      file.variant.empty() ? "" : ", variant " + file.variant);
  std::vector<Submission> submissions;
  for (const auto& [results, submission] : parts) {
    const auto& experiment = results.experiment;
    text += fmt::format("## {}\n\n", experiment.title);
    if (results.trials.empty()) {
      text += "No trial is complete.\n\n";
      continue;
    }
    text += fmt::format("{}; all tables: [{}/summary.md]({}/summary.md)\n\n{}\n", heading(results), experiment.part,
                        experiment.part, markdown(metrics_table(results)));
    if (!results.note.empty()) text += results.note + "\n\n";
    if (!submission.entry.empty()) submissions.push_back(submission);
  }
  for (const auto& reason : left_out) text += reason + "\n\n";
  std::filesystem::create_directories(out);
  write_file_atomically(out / "summary.md", text);
  if (!submissions.empty()) write_file_atomically(out / "submission.csv", submission_text(submissions));
  fmt::print("\nall parts: {}{}\n", (out / "summary.md").string(), submissions.empty() ? "" : ", submission.csv");
}

}  // namespace foretime::experiments
