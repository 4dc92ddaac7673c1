#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/atomic_file.h"
#include "base/message.h"
#include "base/numbers.h"
#include "base/output_target.h"
#include "base/table.h"
#include "base/terminal.h"
#include "experiments/report.h"
#include "sharding/dataset_index.h"
#include "worker/run/display.h"

namespace foretime::experiments {
namespace {

/// Position of the entry that is best in the first column.
std::optional<size_t> best_entry(const Results& results) {
  const auto& experiment = results.experiment;
  const bool lower = find_metric(experiment.columns.front().metric)->lower_is_better;
  std::optional<size_t> best;
  double value = 0;
  for (size_t e = 0; e < experiment.entries.size(); ++e) {
    if (!experiment.entries[e].is_learned()) continue;
    const auto spread = column_spreads(results, e, results.whole()).front();
    if (spread.count == 0) continue;
    if (best && (lower ? spread.mean >= value : spread.mean <= value)) continue;
    best = e;
    value = spread.mean;
  }
  return best;
}

/// The collections of the test groups that an entry ranked, by their names.
std::map<std::string, std::string> collections_of(const configs::DataSettings& data) {
  std::map<std::string, std::string> collections;
  for (const auto& group : data::list_groups(data.test, data.root, sharding::candidate_kind(data.format)))
    collections[group.name] = data::to_string(group.collection);
  return collections;
}

worker::GroupEvaluation as_evaluation(const GroupPredictions& group) {
  worker::GroupEvaluation evaluation{.set = group.set, .group = group.name};
  evaluation.scores.scores = group.scores;
  for (const auto& id : group.ids) evaluation.candidates.push_back(parse_number<int64_t>(id).value_or(-1));
  return evaluation;
}

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

Submission make_submission(const Results& results, const std::vector<Trial>& trials) {
  const auto& experiment = results.experiment;
  if (experiment.submission.empty()) return {};
  const auto best = best_entry(results);
  if (!best) return {};
  const auto runs = results.of(*best, results.whole());
  std::vector<Predictions> seeds;
  for (const auto* run : runs) seeds.push_back(read_unlabelled(run->folders.front() / "rankings.csv"));
  const auto& label = experiment.entries[*best].label;
  if (seeds.front().empty())
    throw DataError("{}: no test groups without run times, expected those of the submission in data.test",
                    (runs.front()->folders.front() / "rankings.csv").string());
  const auto groups = joined(seeds);
  if (groups.empty())
    throw DataError("{}: {}: its seeds ranked different test groups or candidates, expected the same",
                    experiment.full_name(), label);
  std::map<std::string, std::string> collections;
  if (experiment.submission == "by_name") {
    const auto trial =
        std::find_if(trials.begin(), trials.end(), [&](const auto& other) { return other.entry == *best; });
    collections = collections_of(trial->settings.data);
  }
  Submission submission{label, runs.size(), {}};
  for (const auto& group : groups) {
    const auto collection = collections.empty() ? experiment.submission : collections[group.name];
    if (collection.empty())
      throw DataError(
          "{}: the path of its file names no collection of TpuGraphs, expected one such as …/layout/xla/default/…; "
          "or name the collection in place of by_name",
          group.name);
    const auto line = submission_line(collection, as_evaluation(group));
    submission.lines.emplace_back(line.substr(0, line.rfind(',')), line);
  }
  return submission;
}

std::string submission_text(const std::vector<Submission>& parts) {
  std::string text = "ID,TopConfigs\n";
  std::set<std::string> known;
  for (const auto& part : parts)
    for (const auto& [id, line] : part.lines)
      if (known.insert(id).second) text += line;
  return text;
}

PartReport report_part(Results results, const std::vector<Trial>& trials, const std::filesystem::path& out) {
  const auto& experiment = results.experiment;
  const auto part = experiment.part.empty() ? "" : experiment.part + ": ";
  if (results.trials.empty()) {
    show(stdout, fmt::format("{}no trial is complete; nothing to report\n", part));
    return {std::move(results), {}};
  }
  auto submission = make_submission(results, trials);
  if (!submission.entry.empty()) results.note = submission_note(submission);
  auto files = write_report(results, out);
  if (!submission.entry.empty()) {
    write_file_atomically(out / "submission.csv", submission_text({submission}));
    files.emplace_back("submission.csv");
  }
  show(stdout, fmt::format("\n{}{}{}\n\n{}\n{}", part, experiment.title, variant_text(experiment.variant),
                           heading(results), format_table(metrics_table(results), output_width())));
  if (experiment.fractions.size() > 1)
    show(stdout,
         fmt::format("\nby share of the training data\n{}", format_table(shares_table(results), output_width())));
  if (!results.note.empty()) show(stdout, fmt::format("\n{}\n", results.note));
  show(stdout, fmt::format("\n{}: {}\n", out.string(), fmt::join(files, ", ")));
  return {std::move(results), std::move(submission)};
}

void report_file(const ExperimentFile& file, const std::vector<PartReport>& parts,
                 const std::vector<std::string>& left_out, const std::filesystem::path& out) {
  std::string text = fmt::format("# {}\n\n", file.title);
  if (!file.description.empty()) text += file.description + "\n\n";
  text += fmt::format("`{}`{}. ± is the sample standard deviation over seeds.\n\n", file.origin,
                      variant_text(file.variant));
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
  write_file_atomically(out / "summary.md", fmt::format("{}{}\n", text, kExperimentMark));
  if (!submissions.empty()) write_file_atomically(out / "submission.csv", submission_text(submissions));
  show(stdout, fmt::format("\nall parts: {}{}\n", (out / "summary.md").string(),
                           submissions.empty() ? "" : ", submission.csv"));
}

}  // namespace foretime::experiments
