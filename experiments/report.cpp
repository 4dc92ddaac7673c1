#include "experiments/report.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/atomic_file.h"
#include "base/csv.h"
#include "base/files.h"
#include "base/glob.h"
#include "base/output_target.h"

namespace foretime::experiments {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
/// Holds the set and the group patterns that select a column's groups.
using Filter = std::pair<std::string, std::vector<std::string>>;

Predictions chosen(const Column& column, const Predictions& groups) {
  if (!column.is_filtered()) return groups;
  Predictions own;
  for (const auto& group : groups)
    if ((column.set.empty() || column.set == group.set) &&
        (column.groups.empty() || matches_any(column.groups, group.name)))
      own.push_back(group);
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

using Row = std::vector<std::string>;
constexpr size_t kGroupRows = 60;  // beyond, a table of groups says nothing

std::string spread_text(const std::string& metric, const Spread& spread) {
  const auto mean = metric_text(metric, spread.mean);
  if (spread.count < 2) return mean;
  const auto* info = find_metric(metric);
  const bool time = info != nullptr && info->time;
  return fmt::format("{} ± {}", mean,
                     time ? fmt::format("{:.2g}", spread.deviation) : metric_text(metric, spread.deviation));
}

std::string unit_of(const std::string& metric, const TimeUnit& unit) {
  const auto* info = find_metric(metric);
  return info != nullptr && info->time ? unit.name : "";
}

/// The experiment's metrics first, then the others.
std::vector<std::string> all_metrics(const Experiment& experiment) {
  auto names = experiment.metrics;
  for (const auto& name : metric_names())
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  return names;
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
    if (find_metric(metric)->mean == metrics::Mean::trial) values[c] = value_of(trial.metrics, metric);
  }
  return values;
}

std::vector<Spread> column_spreads(const Results& results, size_t entry, double fraction) {
  std::vector<std::vector<double>> seeds(results.experiment.columns.size());
  for (const auto* trial : results.of(entry, fraction)) {
    const auto values = column_values(results, *trial);
    for (size_t c = 0; c < values.size(); ++c)
      if (values[c] == values[c]) seeds[c].push_back(values[c]);
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

std::vector<std::pair<std::string, std::vector<std::string>>> classes_of(const Results& results) {
  std::vector<std::pair<std::string, std::vector<std::string>>> classes;
  const auto groups = results.groups();
  if (results.experiment.classes.empty()) {
    for (const auto& group : groups) classes.push_back({group, {group}});
    return classes;
  }
  for (const auto& one : results.experiment.classes) classes.push_back({one.label, {}});
  classes.push_back({"other", {}});
  for (const auto& group : groups) {
    size_t place = 0;
    while (place < results.experiment.classes.size() && !matches_any(results.experiment.classes[place].patterns, group))
      ++place;
    classes[place].second.push_back(group);
  }
  std::erase_if(classes, [](const auto& one) { return one.second.empty(); });
  return classes;
}

Spread class_spread(const Results& results, size_t entry, double fraction, const std::string& metric,
                    const std::vector<std::string>& groups) {
  std::vector<double> values;
  for (const auto* trial : results.of(entry, fraction)) {
    Predictions own;
    for (const auto& group : trial->groups)
      if (std::find(groups.begin(), groups.end(), group.group) != groups.end()) own.push_back(group);
    const double value = value_of(results.shown(metrics_of(own, results.kind)), metric);
    if (!std::isnan(value)) values.push_back(value);
  }
  return spread_of(values);
}

Metrics class_ceiling(const Results& results, const std::vector<std::string>& groups) {
  Predictions own;
  if (!results.ceiling) return {};
  for (const auto& group : results.ceiling->groups)
    if (std::find(groups.begin(), groups.end(), group.group) != groups.end()) own.push_back(group);
  return results.shown(metrics_of(own, results.kind));
}

std::vector<Row> metrics_table(const Results& results) {
  const auto& experiment = results.experiment;
  const auto& columns = experiment.columns;
  std::vector<Row> rows = {{"", "seeds"}};
  for (const auto& column : columns) rows.front().push_back(column_title(column, results.unit));
  const auto add = [&](const std::string& label, const std::string& seeds, const std::vector<double>& values) {
    rows.push_back({label, seeds});
    for (size_t c = 0; c < values.size(); ++c) rows.back().push_back(metric_text(columns[c].metric, values[c]));
  };
  for (size_t e = 0; e < experiment.entries.size(); ++e) {
    const auto& label = experiment.entries[e].label;
    const auto seeds = fmt::format("{}", results.of(e, results.whole()).size());
    rows.push_back({label, seeds});
    const auto spreads = column_spreads(results, e, results.whole());
    for (size_t c = 0; c < columns.size(); ++c) rows.back().push_back(spread_text(columns[c].metric, spreads[c]));
    if (!experiment.entries[e].is_learned()) continue;
    const auto joined = joined_columns(results, e, results.whole());
    if (std::any_of(joined.begin(), joined.end(), [](double value) { return !std::isnan(value); }))
      add(label + ", seeds joined", seeds, joined);
  }
  if (results.ceiling) {
    add("second measurement", "", column_values(results, results.ceiling->groups));
    add(fmt::format("second measurement, its drift of {:.1f} % left in", 100 * (results.ceiling->drift - 1)), "",
        column_values(results, results.drifted->groups));
  }
  for (const auto& reference : experiment.references) add(reference.label, "", reference_columns(results, reference));
  return rows;
}

std::vector<Row> shares_table(const Results& results) {
  const auto& experiment = results.experiment;
  const auto& metric = experiment.metrics.front();
  std::vector<Row> rows = {{metric_title(metric, results.unit)}};
  for (const double fraction : experiment.fractions) rows.front().push_back(fmt::format("{:.4g} %", 100 * fraction));
  for (size_t e = 0; e < experiment.entries.size(); ++e) {
    rows.push_back({experiment.entries[e].label});
    for (const double fraction : experiment.fractions)
      rows.back().push_back(spread_text(metric, results.spread(e, fraction, metric)));
  }
  return rows;
}

std::string markdown(const std::vector<Row>& rows) {
  std::string text;
  for (size_t r = 0; r < rows.size(); ++r) {
    text += "|";
    for (const auto& cell : rows[r]) {
      std::string plain;
      for (const char c : cell) plain += c == '|' ? std::string("\\|") : std::string(1, c);
      text += " " + plain + " |";
    }
    text += "\n";
    if (r > 0) continue;
    text += "|";
    for (size_t c = 0; c < rows[r].size(); ++c) text += c == 0 ? "---|" : "---:|";
    text += "\n";
  }
  return text;
}

std::string variant_text(const std::string& variant) {
  if (variant == "quick") return ", variant quick: a smoke test, whose figures mean nothing";
  return variant.empty() ? "" : ", variant " + variant;
}

std::string columns_csv(const Results& results) {
  const auto& experiment = results.experiment;
  std::string csv = "entry,kind,fraction,seed,column,metric,set,value\n";
  const auto add = [&](const ExperimentEntry& entry, double fraction, const std::string& seed,
                       const std::vector<double>& values) {
    for (size_t c = 0; c < values.size(); ++c) {
      const auto& column = experiment.columns[c];
      if (values[c] == values[c])
        csv += fmt::format("{},{},{},{},{},{},{},{}\n", csv_field(entry.label), configs::word_of(entry.kind), fraction,
                           seed, csv_field(column_title(column, results.unit)), column.metric, column.set, values[c]);
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

namespace {

/// Groups, or classes of groups where the experiment names them, by entries, of one metric with all training data.
std::vector<Row> groups_table(const Results& results, const std::string& metric) {
  const auto classes = classes_of(results);
  if (classes.size() > kGroupRows) return {};
  const auto& experiment = results.experiment;
  std::vector<Row> rows = {{metric_title(metric, results.unit), "groups"}};
  for (const auto& entry : experiment.entries) rows.front().push_back(entry.label);
  if (results.ceiling) rows.front().emplace_back("second measurement");
  for (const auto& [label, groups] : classes) {
    rows.push_back({label, fmt::format("{}", groups.size())});
    for (size_t e = 0; e < experiment.entries.size(); ++e)
      rows.back().push_back(spread_text(metric, class_spread(results, e, results.whole(), metric, groups)));
    if (results.ceiling) rows.back().push_back(metric_text(metric, value_of(class_ceiling(results, groups), metric)));
  }
  return rows;
}

/// summary.md: what was done, the tables, and what is missing.
std::string summary_md(const Results& results) {
  const auto& experiment = results.experiment;
  std::string text = fmt::format("# {}\n\n", experiment.title);
  if (!experiment.description.empty()) text += experiment.description + "\n\n";
  size_t candidates = 0;
  const auto groups = results.groups();
  if (!results.trials.empty())
    for (const auto& group : results.trials.front().groups) candidates += group.ids.size();
  text += fmt::format("`{}`{}; {} of {} trials; measured on {} candidates of {} groups (set: {}). ", experiment.origin,
                      variant_text(experiment.variant), results.complete, results.expected, candidates, groups.size(),
                      fmt::join(experiment.sets, ", "));
  if (experiment.folds.count > 0)
    text += fmt::format("Groups were left out in {} folds, each of which trained on the groups of the others. ",
                        experiment.folds.count);
  text +=
      "± is the sample standard deviation over seeds; "
      "ranking metrics are means over groups, errors are means over candidates.\n\n";
  text += fmt::format("## With {:.4g} % of the training data\n\n{}\n", 100 * results.whole(),
                      markdown(metrics_table(results)));
  if (!results.note.empty()) text += results.note + "\n\n";
  if (results.ceiling)
    text += fmt::format(
        "The second measurement is that of {} of the candidates. In the median it is {:.1f} % {}, which is taken out "
        "but for the row that says so. It is no model: it shows what noise leaves to reach.\n\n",
        results.ceiling->candidates, 100 * std::abs(results.ceiling->drift - 1),
        results.ceiling->drift < 1 ? "faster" : "slower");
  if (experiment.fractions.size() > 1)
    text += fmt::format("## By share of the training data\n\n{}\n", markdown(shares_table(results)));
  for (const auto& metric : experiment.metrics) {
    if (find_metric(metric)->mean == metrics::Mean::trial) continue;
    const auto rows = groups_table(results, metric);
    if (!rows.empty())
      text += fmt::format("## {} by {}\n\n{}\n", metric_title(metric, results.unit),
                          experiment.classes.empty() ? "group" : "class", markdown(rows));
  }
  return fmt::format("{}{}\n", text, kExperimentMark);
}

/// Every trial's value of every metric: entry, kind, fraction, seed, metric, unit, value. Rows with the seed `joined`
/// are those of the seeds' joined predictions, rows of kind `reference` those of references and second measurements.
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
        add(entry.label, configs::word_of(entry.kind), fraction, fmt::format("{}", trial->seed), trial->metrics);
      if (entry.is_learned())
        add(entry.label, configs::word_of(entry.kind), fraction, "joined", results.joined_metrics(e, fraction));
    }
  }
  add("second measurement", "reference", results.whole(), "", results.ceiling_metrics);
  add("second measurement, with drift", "reference", results.whole(), "", results.drifted_metrics);
  for (const auto& reference : experiment.references)
    add(reference.label, "reference", results.whole(), "", reference.values);
  return csv;
}

/// The results of single groups, a row each: entry, fraction, seed, group, candidates, then the metrics. Times are in
/// the unit of the header.
std::string groups_csv(const Results& results) {
  auto names = all_metrics(results.experiment);
  std::erase_if(names, [](const auto& name) { return find_metric(name)->mean == metrics::Mean::trial; });
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

/// Returns the predictions of the trials with all training data as CSV: entry, seed, group, id, score, predicted,
/// measured, in the unit of the run times.
std::string predictions_csv(const Results& results) {
  std::string csv = "entry,seed,group,id,score,predicted,measured\n";
  for (const auto& trial : results.trials) {
    if (trial.fraction != results.whole()) continue;
    for (const auto& group : trial.groups) {
      for (size_t i = 0; i < group.ids.size(); ++i)
        csv += fmt::format("{},{},{},{},{},{},{}\n", csv_field(results.experiment.entries[trial.entry].label),
                           trial.seed, csv_field(group.group), csv_field(group.ids[i]), group.scores[i],
                           group.predicted.empty() ? "" : fmt::format("{}", group.predicted[i]), group.measured[i]);
    }
  }
  return csv;
}

}  // namespace

void expect_replaceable_report(const Experiment& experiment, const std::vector<Trial>& trials,
                               const std::filesystem::path& out, bool force) {
  std::vector<std::string> names = {"results.csv", "groups.csv", "predictions.csv",
                                    "columns.csv", "summary.md", "submission.csv"};
  for (const auto& name : names) expect_replaceable("", out / name, FileKind::experiment, force);
  for (const auto& trial : trials)
    if (experiment.entries[trial.entry].kind != EntryKind::model)  // the folder of a model's trial is a run
      expect_replaceable("", trial.folder / "rankings.csv", FileKind::ranking, force);
}

std::vector<std::string> write_report(const Results& results, const std::filesystem::path& out) {
  std::filesystem::create_directories(out);
  std::vector<std::string> written;
  const auto write = [&](const std::string& name, const std::string& text) {
    write_file_atomically(out / name, text);
    written.push_back(name);
  };
  write("results.csv", results_csv(results));
  write("groups.csv", groups_csv(results));
  write("predictions.csv", predictions_csv(results));
  if (results.experiment.has_columns) write("columns.csv", columns_csv(results));
  write("summary.md", summary_md(results));
  return written;
}

}  // namespace foretime::experiments
