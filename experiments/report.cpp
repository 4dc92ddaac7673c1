#include "experiments/report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/atomic_file.h"
#include "base/glob.h"
#include "experiments/columns.h"

namespace foretime::experiments {
namespace {

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

}  // namespace

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
    for (const auto& group : trial->groups) {
      if (std::find(groups.begin(), groups.end(), group.group) != groups.end()) own.push_back(group);
    }
    const double value = value_of(results.shown(metrics_of(own, results.kind)), metric);
    if (!std::isnan(value)) values.push_back(value);
  }
  return spread_of(values);
}

Metrics class_ceiling(const Results& results, const std::vector<std::string>& groups) {
  Predictions own;
  if (!results.ceiling) return {};
  for (const auto& group : results.ceiling->groups) {
    if (std::find(groups.begin(), groups.end(), group.group) != groups.end()) own.push_back(group);
  }
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

std::string summary_md(const Results& results, const std::vector<std::string>& figures) {
  const auto& experiment = results.experiment;
  std::string text = fmt::format("# {}\n\n", experiment.title);
  if (!experiment.description.empty()) text += experiment.description + "\n\n";
  size_t candidates = 0;
  const auto groups = results.groups();
  if (!results.trials.empty()) {
    for (const auto& group : results.trials.front().groups) candidates += group.ids.size();
  }
  text += fmt::format("`{}`{}: {} of {} trials; measured on {} candidates of {} groups (set: {}). ", experiment.origin,
                      experiment.variant.empty() ? "" : ", variant " + experiment.variant, results.complete,
                      results.expected, candidates, groups.size(), fmt::join(experiment.sets, ", "));
  if (experiment.folds.count > 0)
    text += fmt::format("Groups were left out in {} folds, each of which trained on the groups of the others. ",
                        experiment.folds.count);
  text +=
      "± is the sample standard deviation over seeds; ranking metrics are means over groups, errors are means over "
      "candidates.\n\n";
  text += fmt::format("## With {:.4g} % of the training data\n\n{}\n", 100 * results.whole(),
                      markdown(metrics_table(results)));
  if (!results.note.empty()) text += results.note + "\n\n";
  if (results.ceiling)
    text += fmt::format(
        "The second measurement is that of {} of the candidates. In the median it is {:.1f} % {}, which is taken out "
        "but "
        "for the row that says so. It is no model: it shows what noise leaves to reach.\n\n",
        results.ceiling->candidates, 100 * std::abs(results.ceiling->drift - 1),
        results.ceiling->drift < 1 ? "faster" : "slower");
  if (experiment.fractions.size() > 1)
    text += fmt::format("## By share of the training data\n\n{}\n", markdown(shares_table(results)));
  for (const auto& metric : experiment.metrics) {
    if (find_metric(metric)->of_trial) continue;
    const auto rows = groups_table(results, metric);
    if (!rows.empty())
      text += fmt::format("## {} by {}\n\n{}\n", metric_title(metric, results.unit),
                          experiment.classes.empty() ? "group" : "class", markdown(rows));
  }
  for (const auto& figure : figures) text += fmt::format("![{0}]({0})\n\n", figure);
  return text;
}

std::vector<std::string> write_report(const Results& results, const std::filesystem::path& out) {
  std::filesystem::create_directories(out);
  std::vector<std::string> written, figures;
  const auto write = [&](const std::string& name, const std::string& text) {
    write_file_atomically(out / name, text);
    written.push_back(name);
  };
  for (const auto& figure : results.experiment.figures) {
    const auto svg = draw_figure(results, figure);
    if (svg.empty()) {
      std::filesystem::remove(out / figure.file);  // of an earlier report
      continue;
    }
    write(figure.file, svg);
    figures.push_back(figure.file);
  }
  write("results.csv", results_csv(results));
  write("groups.csv", groups_csv(results));
  write("predictions.csv", predictions_csv(results));
  if (results.experiment.has_columns) write("columns.csv", columns_csv(results));
  write("summary.md", summary_md(results, figures));
  return written;
}

}  // namespace foretime::experiments
