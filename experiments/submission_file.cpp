#include "experiments/submission_file.h"

#include <charconv>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "experiments/columns.h"
#include "sharding/dataset_index.h"
#include "worker/run/submission.h"

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
  for (const auto& id : group.ids) {
    int64_t candidate = -1;
    std::from_chars(id.data(), id.data() + id.size(), candidate);
    evaluation.candidates.push_back(candidate);
  }
  return evaluation;
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
    throw DataError(fmt::format("{}: no test groups without run times, expected those of the submission in data.test",
                                (runs.front()->folders.front() / "rankings.csv").string()));
  const auto groups = joined(seeds);
  if (groups.empty())
    throw DataError(fmt::format("{}: {}: its seeds ranked different test groups or candidates, expected the same",
                                experiment.full_name(), label));
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
      throw DataError(fmt::format(
          "{}: the path of its file names no collection of TpuGraphs, expected one such as …/layout/xla/default/…; or "
          "name the collection in place of by_name",
          group.name));
    const auto line = submission_line(collection, as_evaluation(group));
    submission.lines.emplace_back(line.substr(0, line.rfind(',')), line);
  }
  return submission;
}

std::string submission_text(const std::vector<Submission>& parts) {
  std::string text = "ID,TopConfigs\n";
  std::set<std::string> known;
  for (const auto& part : parts) {
    for (const auto& [id, line] : part.lines) {
      if (known.insert(id).second) text += line;
    }
  }
  return text;
}

}  // namespace foretime::experiments
