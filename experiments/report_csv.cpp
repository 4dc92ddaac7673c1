#include <algorithm>

#include <fmt/format.h>

#include "base/csv.h"
#include "experiments/columns.h"
#include "experiments/report.h"

namespace foretime::experiments {
namespace {

std::string unit_of(const std::string& metric, const TimeUnit& unit) {
  const auto* info = find_metric(metric);
  return info != nullptr && info->time ? unit.name : "";
}

/// The experiment's metrics first, then the others.
std::vector<std::string> all_metrics(const Experiment& experiment) {
  auto names = experiment.metrics;
  for (const auto& name : metric_names()) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

}  // namespace

std::string results_csv(const Results& results) {
  const auto& experiment = results.experiment;
  std::string csv = "entry,kind,fraction,seed,metric,unit,value\n";
  const auto add = [&](const std::string& label, const std::string& kind, double fraction, const std::string& seed,
                       const Metrics& metrics) {
    for (const auto& name : all_metrics(experiment)) {
      const auto found = metrics.find(name);
      if (found != metrics.end())
        csv += fmt::format("{},{},{},{},{},{},{}\n", csv_field(label), kind, fraction, seed, name,
                           unit_of(name, results.unit), found->second);
    }
  };
  for (size_t e = 0; e < experiment.entries.size(); ++e) {
    const auto& entry = experiment.entries[e];
    for (const double fraction : experiment.fractions) {
      for (const auto* trial : results.of(e, fraction))
        add(entry.label, to_string(entry.kind), fraction, fmt::format("{}", trial->seed), trial->metrics);
      if (entry.is_learned())
        add(entry.label, to_string(entry.kind), fraction, "joined", results.joined_metrics(e, fraction));
    }
  }
  add("second measurement", "reference", results.whole(), "", results.ceiling_metrics);
  add("second measurement, with drift", "reference", results.whole(), "", results.drifted_metrics);
  for (const auto& reference : experiment.references)
    add(reference.label, "reference", results.whole(), "", reference.values);
  return csv;
}

std::string groups_csv(const Results& results) {
  auto names = all_metrics(results.experiment);
  std::erase_if(names, [](const auto& name) { return find_metric(name)->of_trial; });
  std::string csv = "entry,fraction,seed,group,candidates";
  for (const auto& name : names) {
    const auto unit = unit_of(name, results.unit);
    csv += "," + name + (unit.empty() ? "" : "_" + unit);
  }
  csv += "\n";
  for (const auto& trial : results.trials) {
    for (const auto& group : trial.groups) {
      const auto metrics = results.shown(metrics_of(group, results.kind));
      csv += fmt::format("{},{},{},{},{}", csv_field(results.experiment.entries[trial.entry].label), trial.fraction,
                         trial.seed, csv_field(group.group), group.ids.size());
      for (const auto& name : names) {
        const auto found = metrics.find(name);
        csv += found == metrics.end() ? "," : fmt::format(",{}", found->second);
      }
      csv += "\n";
    }
  }
  return csv;
}

std::string predictions_csv(const Results& results) {
  std::string csv = "entry,seed,group,id,score,predicted,measured\n";
  for (const auto& trial : results.trials) {
    if (trial.fraction != results.whole()) continue;
    for (const auto& group : trial.groups) {
      for (size_t i = 0; i < group.ids.size(); ++i) {
        csv += fmt::format("{},{},{},{},{},{},{}\n", csv_field(results.experiment.entries[trial.entry].label),
                           trial.seed, csv_field(group.group), csv_field(group.ids[i]), group.scores[i],
                           group.predicted.empty() ? "" : fmt::format("{}", group.predicted[i]), group.measured[i]);
      }
    }
  }
  return csv;
}

std::string columns_csv(const Results& results) {
  const auto& experiment = results.experiment;
  std::string csv = "entry,kind,fraction,seed,column,metric,set,value\n";
  const auto add = [&](const ExperimentEntry& entry, double fraction, const std::string& seed,
                       const std::vector<double>& values) {
    for (size_t c = 0; c < values.size(); ++c) {
      const auto& column = experiment.columns[c];
      if (values[c] == values[c])
        csv += fmt::format("{},{},{},{},{},{},{},{}\n", csv_field(entry.label), to_string(entry.kind), fraction, seed,
                           csv_field(column_title(column, results.unit)), column.metric, column.set, values[c]);
    }
  };
  for (size_t e = 0; e < experiment.entries.size(); ++e) {
    const auto& entry = experiment.entries[e];
    for (const double fraction : experiment.fractions) {
      for (const auto* trial : results.of(e, fraction))
        add(entry, fraction, fmt::format("{}", trial->seed), column_values(results, *trial));
      if (entry.is_learned()) add(entry, fraction, "joined", joined_columns(results, e, fraction));
    }
  }
  return csv;
}

}  // namespace foretime::experiments
