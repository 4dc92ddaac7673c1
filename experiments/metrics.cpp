#include "experiments/metrics.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/csv.h"
#include "base/error.h"
#include "base/foreign_file.h"
#include "data/files/npz_reader.h"
#include "data/graphs/contest.h"

namespace foretime::experiments {
namespace {

constexpr uint64_t kMostRankingsBytes = uint64_t{4} << 30;

double median(std::vector<double> values) {
  if (values.empty()) return 1;
  const auto middle = values.begin() + values.size() / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Places of the first seed's candidates in another seed; empty where the two have different ones.
std::vector<size_t> places_in(const GroupPredictions& seed, const GroupPredictions& first) {
  std::unordered_map<std::string, size_t> place;
  for (size_t i = 0; i < seed.ids.size(); ++i) place.emplace(seed.ids[i], i);
  std::vector<size_t> places;
  for (const auto& id : first.ids) {
    const auto found = place.find(id);
    if (found == place.end() || seed.ids.size() != first.ids.size()) return {};
    places.push_back(found->second);
  }
  return places;
}

/// One group of several seeds, in the first one's order; no candidates where they differ.
GroupPredictions join_group(const std::vector<const GroupPredictions*>& seeds) {
  const GroupPredictions& first = *seeds.front();
  std::vector<metrics::Scores> members;
  for (const auto* seed : seeds) {
    const auto places = places_in(*seed, first);
    if (places.empty()) return {};
    auto& member = members.emplace_back();
    for (const size_t place : places) {
      member.scores.push_back(seed->scores[place]);
      if (!seed->predicted.empty()) member.predicted.push_back(seed->predicted[place]);
    }
  }
  auto joined = metrics::joined_scores(members);
  return {first.group,
          first.ids,
          std::move(joined.scores),
          first.measured,
          std::move(joined.predicted),
          std::move(joined.levels),
          first.name,
          first.set};
}

/// A table of a trial, whose folder others may write. Throws DataError, FileError.
CsvTable csv_of(const std::filesystem::path& file) {
  const auto text = read_foreign(file.parent_path(), file.filename(), kMostRankingsBytes);
  if (!text) throw DataError("{}: no such file", file.string());
  return parse_csv(*text, file.string());
}

}  // namespace

const metrics::Metric* find_metric(const std::string& name) {
  const auto* info = name.find('/') == std::string::npos ? metrics::find_metric(name) : nullptr;
  return info != nullptr && info->of_experiments ? info : nullptr;
}

std::vector<std::string> metric_names() {
  std::vector<std::string> names;
  for (const auto& info : metrics::all_metrics())
    if (info.of_experiments) names.emplace_back(info.name);
  return names;
}

TimeUnit time_unit(configs::DataFormat format) {
  if (format == configs::DataFormat::programs) return {1e3, "ms"};
  if (format == configs::DataFormat::layout) return {1e-6, "ms"};
  return {};
}

Predictions read_rankings(const std::filesystem::path& file, const std::vector<std::string>& wanted) {
  const auto table = csv_of(file);
  const size_t sets = table.column("set"), group = table.column("group"), candidate = table.column("candidate");
  const size_t id = table.column("id"), score = table.column("score"), predicted = table.column("predicted_runtime");
  const size_t measured = table.column("runtime");
  const bool has_levels = std::find(table.columns.begin(), table.columns.end(), "level") != table.columns.end();
  std::map<std::string, GroupPredictions> groups;
  for (size_t r = 0; r < table.rows.size(); ++r) {
    const auto& row = table.rows[r];
    if (row[measured].empty() || std::find(wanted.begin(), wanted.end(), row[sets]) == wanted.end()) continue;
    const auto label = wanted.size() == 1 ? row[group] : fmt::format("{}, {}", row[group], row[sets]);
    auto& own = groups[label];
    own.group = label;
    own.name = row[group];
    own.set = row[sets];
    own.ids.push_back(row[id].empty() ? row[candidate] : row[id]);
    own.scores.push_back(csv_number(table, r, score));
    own.measured.push_back(csv_number(table, r, measured));
    if (!row[predicted].empty()) own.predicted.push_back(csv_number(table, r, predicted));
    if (const auto level = has_levels ? row[table.column("level")] : ""; !level.empty())
      own.levels.push_back(csv_number(table, r, table.column("level")));
  }
  Predictions found;
  for (auto& [name, own] : groups) {
    if (own.levels.size() != own.ids.size()) own.levels.clear();
    if (!own.predicted.empty() && own.predicted.size() != own.ids.size())
      throw DataError("{}: {}: {} of {} candidates have a predicted run time, expected all or none", file.string(),
                      name, own.predicted.size(), own.ids.size());
    found.push_back(std::move(own));
  }
  if (found.empty())
    throw DataError("{}: no rows of set {} that have run times", file.string(), fmt::join(wanted, ", "));
  return found;
}

Predictions read_unlabelled(const std::filesystem::path& file) {
  const auto table = csv_of(file);
  const size_t sets = table.column("set"), group = table.column("group"), candidate = table.column("candidate");
  const size_t score = table.column("score"), predicted = table.column("predicted_runtime");
  const size_t measured = table.column("runtime");
  std::map<std::string, GroupPredictions> groups;
  for (size_t r = 0; r < table.rows.size(); ++r) {
    const auto& row = table.rows[r];
    if (!row[measured].empty() || row[sets] != "test") continue;
    auto& own = groups[row[group]];
    own.group = own.name = row[group];
    own.set = row[sets];
    own.ids.push_back(row[candidate]);
    own.scores.push_back(csv_number(table, r, score));
    if (!row[predicted].empty()) own.predicted.push_back(csv_number(table, r, predicted));
  }
  Predictions found;
  for (auto& [name, own] : groups) {
    if (own.predicted.size() != own.ids.size()) own.predicted.clear();
    found.push_back(std::move(own));
  }
  return found;
}

double value_of(const Metrics& metrics, const std::string& name) {
  const auto found = metrics.find(name);
  return found == metrics.end() ? std::numeric_limits<double>::quiet_NaN() : found->second;
}

Metrics metrics_of(const GroupPredictions& group, data::CandidateKind kind) {
  const metrics::Scores scores{group.scores, group.predicted, group.levels};
  auto metrics = metrics::group_metrics(scores, group.measured, data::contest_of(kind));
  if (const auto tau = metrics.find("kendall_tau"); tau != metrics.end())
    metrics.emplace("kendall_tau_of_scores", tau->second);  // equal to kendall_tau, since there are no levels
  if (const auto score = metrics.find("contest_score"); score != metrics.end()) metrics["accuracy"] = score->second;
  return metrics;
}

Metrics metrics_of(const Predictions& groups, data::CandidateKind kind) {
  std::map<std::string, std::pair<double, double>> sums;  // sum, count
  for (const auto& group : groups) {
    for (const auto& [name, value] : metrics_of(group, kind)) {
      const auto* info = find_metric(name);
      if (info == nullptr) continue;
      const auto ran = std::ranges::count_if(group.measured, [](double time) { return std::isfinite(time); });
      const double weight = info->over_candidates() ? ran : 1.0;
      sums[name].first += weight * (info->mean == metrics::Mean::root_of_candidates ? value * value : value);
      sums[name].second += weight;
    }
  }
  Metrics metrics;
  for (const auto& [name, sum] : sums) {
    const double mean = sum.first / sum.second;
    metrics[name] = find_metric(name)->mean == metrics::Mean::root_of_candidates ? std::sqrt(mean) : mean;
  }
  return metrics;
}

Predictions joined(const std::vector<Predictions>& seeds) {
  Predictions out;
  for (const auto& group : seeds.front()) {
    std::vector<const GroupPredictions*> same;
    for (const auto& seed : seeds) {
      const auto found =
          std::find_if(seed.begin(), seed.end(), [&](const auto& other) { return other.group == group.group; });
      if (found == seed.end() || seed.size() != seeds.front().size()) return {};
      same.push_back(&*found);
    }
    out.push_back(join_group(same));
    if (out.back().ids.empty()) return {};
  }
  return out;
}

std::unordered_map<std::string, double> read_remeasured(const std::filesystem::path& path) {
  const data::NpzReader file(path);
  const auto ids = file.read_text("id", {{data::kAnySize}, "(programs,)"});
  const auto runtimes = file.read<double>("runtime", {{std::ssize(ids)}, "(programs,)"});
  std::unordered_map<std::string, double> second;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!std::isfinite(runtimes[i]) || runtimes[i] <= 0)
      throw DataError("{}: {} of {}, expected a run time above 0", file.origin("runtime"), runtimes[i], ids[i]);
    second[ids[i]] = runtimes[i];
  }
  return second;
}

Remeasurement as_prediction(const Predictions& measured, const std::unordered_map<std::string, double>& second,
                            bool without_drift) {
  Remeasurement result;
  std::vector<double> ratios;
  for (const auto& group : measured) {
    GroupPredictions own{group.group, {}, {}, {}, {}, {}, group.name, group.set};
    for (size_t i = 0; i < group.ids.size(); ++i) {
      const auto found = second.find(group.ids[i]);
      if (found == second.end()) continue;
      own.ids.push_back(group.ids[i]);
      own.measured.push_back(group.measured[i]);
      own.predicted.push_back(found->second);
      ratios.push_back(found->second / group.measured[i]);
    }
    result.candidates += own.ids.size();
    if (!own.ids.empty()) result.groups.push_back(std::move(own));
  }
  result.drift = median(ratios);
  for (auto& group : result.groups) {
    if (without_drift)
      for (double& predicted : group.predicted) predicted /= result.drift;
    group.scores = group.predicted;
  }
  return result;
}

}  // namespace foretime::experiments
