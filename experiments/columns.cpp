#include "experiments/columns.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <utility>

#include "base/glob.h"

namespace foretime::experiments {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
/// What decides which groups a column takes.
using Filter = std::pair<std::string, std::vector<std::string>>;

bool takes(const Column& column, const GroupPredictions& group) {
  if (!column.set.empty() && column.set != group.set) return false;
  return column.groups.empty() || matches_any(column.groups, group.name);
}

Predictions chosen(const Column& column, const Predictions& groups) {
  if (!column.is_filtered()) return groups;
  Predictions own;
  for (const auto& group : groups) {
    if (takes(column, group)) own.push_back(group);
  }
  return own;
}

/// Asks for the metrics of each choice of groups once, however many columns have it.
std::vector<double> values_by(const Results& results, const std::function<Metrics(const Column&)>& metrics_of_choice) {
  std::map<Filter, Metrics> known;
  std::vector<double> values;
  for (const auto& column : results.experiment.columns) {
    const auto [place, fresh] = known.try_emplace({column.set, column.groups});
    if (fresh) place->second = metrics_of_choice(column);
    values.push_back(value_of(place->second, column.metric));
  }
  return values;
}

}  // namespace

std::vector<double> column_values(const Results& results, const Predictions& groups) {
  return values_by(
      results, [&](const Column& column) { return results.shown(metrics_of(chosen(column, groups), results.kind)); });
}

std::vector<double> column_values(const Results& results, const TrialResult& trial) {
  auto values = column_values(results, trial.groups);
  for (size_t c = 0; c < values.size(); ++c) {
    const auto& metric = results.experiment.columns[c].metric;
    if (find_metric(metric)->of_trial) values[c] = value_of(trial.metrics, metric);
  }
  return values;
}

std::vector<Spread> column_spreads(const Results& results, size_t entry, double fraction) {
  std::vector<std::vector<double>> seeds(results.experiment.columns.size());
  for (const auto* trial : results.of(entry, fraction)) {
    const auto values = column_values(results, *trial);
    for (size_t c = 0; c < values.size(); ++c) {
      if (values[c] == values[c]) seeds[c].push_back(values[c]);
    }
  }
  std::vector<Spread> spreads;
  for (const auto& values : seeds) spreads.push_back(spread_of(values));
  return spreads;
}

std::vector<double> joined_columns(const Results& results, size_t entry, double fraction) {
  const auto trials = results.of(entry, fraction);
  if (trials.size() < 2) return std::vector<double>(results.experiment.columns.size(), kNone);
  return values_by(results, [&](const Column& column) {
    std::vector<Predictions> seeds;
    for (const auto* trial : trials) seeds.push_back(chosen(column, trial->groups));
    return results.shown(metrics_of(joined(seeds), results.kind));
  });
}

std::vector<double> reference_columns(const Results& results, const Reference& reference) {
  std::vector<double> values;
  for (const auto& column : results.experiment.columns) {
    const auto titled = column.title.empty() ? kNone : value_of(reference.values, column.title);
    const bool plain = !column.is_filtered() && !(titled == titled);
    values.push_back(plain ? value_of(reference.values, column.metric) : titled);
  }
  return values;
}

std::string column_title(const Column& column, const TimeUnit& unit) {
  return column.title.empty() ? metric_title(column.metric, unit) : column.title;
}

}  // namespace foretime::experiments
