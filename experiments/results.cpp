#include "experiments/results.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "base/error.h"
#include "coordinator/run_directory.h"
#include "sharding/dataset_index.h"

namespace foretime::experiments {

Results begin_results(const Experiment& experiment, size_t expected) {
  Results results;
  results.experiment = experiment;
  results.expected = expected;
  results.unit = time_unit(experiment.base.data.format);
  results.kind = sharding::candidate_kind(experiment.base.data.format);
  return results;
}

Metrics Results::shown(const Metrics& metrics) const {
  auto scaled = metrics;
  for (auto& [name, value] : scaled) {
    const auto* info = find_metric(name);
    if (info != nullptr && info->time) value *= unit.factor;
  }
  return scaled;
}

void Results::add(const Trial& trial, const std::filesystem::path& folder, double seconds) {
  ++complete;
  const auto resources = coordinator::read_run_resources(folder);
  TrialResult result{trial.entry,
                     trial.fraction,
                     trial.seed,
                     resources ? resources->seconds : seconds,
                     resources ? resources->all_memory : 0,
                     read_rankings(folder / "rankings.csv", experiment.sets),
                     {},
                     {folder}};
  if (trial.fold < 0) return finish(std::move(result));
  const auto found = std::find_if(unfinished_.begin(), unfinished_.end(), [&](const auto& other) {
    return other.entry == trial.entry && other.fraction == trial.fraction && other.seed == trial.seed;
  });
  if (found == unfinished_.end()) {
    unfinished_.push_back(std::move(result));
    return;  // two or more folds are needed
  }
  found->seconds += result.seconds;
  found->memory = std::max(found->memory, result.memory);
  std::move(result.groups.begin(), result.groups.end(), std::back_inserter(found->groups));
  found->folders.push_back(folder);
  if (std::ssize(found->folders) < experiment.folds.count) return;
  finish(std::move(*found));
  unfinished_.erase(found);
}

void Results::finish(TrialResult result) {
  std::sort(result.groups.begin(), result.groups.end(), [](const auto& a, const auto& b) { return a.group < b.group; });
  result.metrics = shown(metrics_of(result.groups, kind));
  if (result.seconds > 0) result.metrics["seconds"] = result.seconds;
  if (result.memory > 0) result.metrics["memory"] = result.memory;
  trials.push_back(std::move(result));
}

void Results::compare_remeasured() {
  if (experiment.remeasured.empty() || trials.empty()) return;
  const auto file = std::filesystem::path(experiment.base.data.root) / experiment.remeasured;
  const auto second = read_remeasured(file);
  ceiling = as_prediction(trials.front().groups, second, true);
  if (ceiling->candidates == 0)
    throw DataError("{}: holds second measurements (`remeasured`) of none of the ranked candidates (such as {})",
                    file.string(), trials.front().groups.front().ids.front());
  ceiling_metrics = shown(metrics_of(ceiling->groups, kind));
  drifted = as_prediction(trials.front().groups, second, false);
  drifted_metrics = shown(metrics_of(drifted->groups, kind));
}

std::vector<const TrialResult*> Results::of(size_t entry, double fraction) const {
  std::vector<const TrialResult*> found;
  for (const auto& trial : trials)
    if (trial.entry == entry && trial.fraction == fraction) found.push_back(&trial);
  return found;
}

Spread spread_of(const std::vector<double>& values) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  if (values.empty()) return {0, kNone, kNone, kNone, 0};
  Spread spread{values.size(), 0, values.front(), values.front(), 0};
  const double count = values.size();
  for (const double value : values) {
    spread.mean += value / count;
    spread.low = std::min(spread.low, value);
    spread.high = std::max(spread.high, value);
  }
  double squares = 0;
  for (const double value : values) squares += (value - spread.mean) * (value - spread.mean);
  if (values.size() > 1) spread.deviation = std::sqrt(squares / (count - 1));
  return spread;
}

Spread Results::spread(size_t entry, double fraction, const std::string& metric) const {
  std::vector<double> values;
  for (const auto* trial : of(entry, fraction)) {
    const auto value = trial->metrics.find(metric);
    if (value != trial->metrics.end()) values.push_back(value->second);
  }
  return spread_of(values);
}

Metrics Results::joined_metrics(size_t entry, double fraction) const {
  std::vector<Predictions> seeds;
  for (const auto* trial : of(entry, fraction)) seeds.push_back(trial->groups);
  return seeds.size() < 2 ? Metrics{} : shown(metrics_of(joined(seeds), kind));
}

std::vector<std::string> Results::groups() const {
  std::set<std::string> names;
  for (const auto& trial : trials)
    for (const auto& group : trial.groups) names.insert(group.group);
  std::vector<std::string> sorted(names.begin(), names.end());
  // C3 before C10: shorter names first where a number ends them.
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    const auto stem = [](const std::string& name) { return name.substr(0, name.find_last_not_of("0123456789") + 1); };
    return stem(a) == stem(b) ? a.size() < b.size() : stem(a) < stem(b);
  });
  return sorted;
}

std::string metric_text(const std::string& metric, double value) {
  if (std::isnan(value)) return "-";
  const auto* info = find_metric(metric);
  if (info != nullptr && info->percent) {
    // Layouts of one graph may differ by less than a per cent.
    const bool small = std::abs(value) < 0.01;
    return small ? fmt::format("{:.2f} %", 100 * value) : fmt::format("{:.1f} %", 100 * value);
  }
  if (info != nullptr && info->mean == metrics::Mean::trial && value >= 10) return fmt::format("{:.0f}", value);
  return info != nullptr && (info->time || info->mean == metrics::Mean::trial) ? fmt::format("{:.3g}", value)
                                                                               : fmt::format("{:.3f}", value);
}

std::string metric_title(const std::string& metric, const TimeUnit& unit) {
  const auto* info = find_metric(metric);
  if (info == nullptr) return metric;
  return info->time && !unit.name.empty() ? fmt::format("{} ({})", info->title, unit.name) : std::string(info->title);
}

}  // namespace foretime::experiments
