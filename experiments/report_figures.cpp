#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "experiments/figures/charts.h"
#include "experiments/report.h"

namespace foretime::experiments {
namespace {

constexpr size_t kMostRows = 40;   // rows in a chart of groups
constexpr size_t kMostClouds = 8;  // colours that can be told apart

std::string title_of(const Results& results, const FigureSpec& figure) {
  return figure.title.empty() ? results.experiment.title : figure.title;
}

/// The entries that a figure shows, by position: those it names, else those that learn.
std::vector<size_t> entries_of(const Results& results, const FigureSpec& figure) {
  std::vector<size_t> chosen;
  const auto& entries = results.experiment.entries;
  for (size_t e = 0; e < entries.size(); ++e) {
    const bool named =
        std::find(figure.entries.begin(), figure.entries.end(), entries[e].label) != figure.entries.end();
    if (figure.entries.empty() ? entries[e].is_learned() : named) chosen.push_back(e);
  }
  return chosen;
}

/// Returns the values of the entries that do not learn, with all training data.
std::vector<figures::LevelLine> unlearned_levels(const Results& results, const std::string& metric) {
  std::vector<figures::LevelLine> levels;
  const auto& entries = results.experiment.entries;
  for (size_t e = 0; e < entries.size(); ++e) {
    const double value = results.spread(e, results.whole(), metric).mean;
    if (!entries[e].is_learned() && std::isfinite(value)) levels.push_back({entries[e].label, value});
  }
  return levels;
}

/// Levels to compare with: the second measurement, references and, where `unlearned` is set, what does not learn.
std::vector<figures::LevelLine> levels_of(const Results& results, const std::string& metric, bool unlearned) {
  auto levels = unlearned ? unlearned_levels(results, metric) : std::vector<figures::LevelLine>();
  const auto add = [&](const std::string& label, double value) {
    if (std::isfinite(value)) levels.push_back({label, value});
  };
  add("second measurement", value_of(results.ceiling_metrics, metric));
  for (const auto& reference : results.experiment.references) add(reference.label, value_of(reference.values, metric));
  return levels;
}

/// "mean 7.03": what a chart of errors has no room for.
std::string unlearned_note(const Results& results, const std::string& metric) {
  std::string text;
  const auto& entries = results.experiment.entries;
  for (size_t e = 0; e < entries.size(); ++e) {
    const double value = results.spread(e, results.whole(), metric).mean;
    if (!entries[e].is_learned() && std::isfinite(value))
      text +=
          fmt::format("{}{}: {}", text.empty() ? " Not drawn: " : ", ", entries[e].label, metric_text(metric, value));
  }
  return text.empty() ? "" : text + ".";
}

std::string seeds_note(const Results& results) {
  const size_t seeds = results.experiment.seeds.size();
  auto note =
      seeds == 1 ? "One seed." : fmt::format("Mean of {} seeds, with the range from the lowest to the highest.", seeds);
  if (results.complete < results.expected)
    note += fmt::format(" {} of {} trials are complete.", results.complete, results.expected);
  return note;
}

std::string draw_curves(const Results& results, const FigureSpec& figure) {
  const auto& metric = figure.metrics.front();
  figures::LineChart chart;
  chart.title = title_of(results, figure);
  chart.note = seeds_note(results) + unlearned_note(results, metric);
  chart.x = {"share of the training data", figure.log_x, true, results.experiment.fractions};
  chart.y = {metric_title(metric, results.unit), figure.log_y, find_metric(metric)->percent, {}};
  chart.levels = levels_of(results, metric, false);
  bool any = false;
  for (const size_t e : entries_of(results, figure)) {
    figures::LineSeries series{
        .label = results.experiment.entries[e].label, .x = {}, .y = {}, .low = {}, .high = {}, .style = e};
    for (const double fraction : results.experiment.fractions) {
      const auto spread = results.spread(e, fraction, metric);
      if (spread.count == 0) continue;
      any = true;
      series.x.push_back(fraction);
      series.y.push_back(spread.mean);
      series.low.push_back(spread.low);
      series.high.push_back(spread.high);
    }
    if (!series.x.empty()) chart.series.push_back(std::move(series));
  }
  return any ? figures::draw(chart) : "";
}

figures::ScatterPanel scatter_panel(const Results& results, const TrialResult& trial) {
  figures::ScatterPanel panel;
  panel.title = results.experiment.entries[trial.entry].label;
  for (const auto& metric : {"mae", "kendall_tau"}) {
    const double value = value_of(trial.metrics, metric);
    if (!std::isnan(value))
      panel.note += fmt::format("{}{}: {}", panel.note.empty() ? "" : ", ", metric_title(metric, results.unit),
                                metric_text(metric, value));
  }
  const auto classes = classes_of(results);
  const bool together = classes.size() > kMostClouds;
  if (together) panel.clouds.push_back({"all groups", {}, {}, 0});
  for (size_t c = 0; c < classes.size(); ++c) {
    if (!together) panel.clouds.push_back({classes[c].first, {}, {}, c});
    auto& cloud = panel.clouds.back();
    for (const auto& group : trial.groups) {
      const auto& names = classes[c].second;
      if (group.predicted.empty() || std::find(names.begin(), names.end(), group.group) == names.end()) continue;
      for (size_t i = 0; i < group.ids.size(); ++i) {
        cloud.x.push_back(group.measured[i] * results.unit.factor);
        cloud.y.push_back(group.predicted[i] * results.unit.factor);
      }
    }
  }
  return panel;
}

std::string draw_scatter(const Results& results, const FigureSpec& figure) {
  figures::ScatterChart chart;
  const auto unit = results.unit.name.empty() ? "" : fmt::format(" ({})", results.unit.name);
  chart.title = title_of(results, figure);
  chart.x = {"measured" + unit, true, false, {}};
  chart.y = {"predicted" + unit, true, false, {}};
  uint64_t seed = 0;
  for (const size_t e : entries_of(results, figure)) {
    const auto trials = results.of(e, results.whole());
    if (trials.empty() || trials.front()->groups.front().predicted.empty()) continue;
    chart.panels.push_back(scatter_panel(results, *trials.front()));
    seed = trials.front()->seed;
  }
  if (chart.panels.empty()) return "";
  chart.note = fmt::format(
      "Each dot is one program; {:.4g} % of the training data, seed {}; on the dashed line "
      "predictions are right.",
      100 * results.whole(), seed);
  return figures::draw(chart);
}

/// Groups as rows, entries as marks.
std::string draw_groups(const Results& results, const FigureSpec& figure) {
  const auto& metric = figure.metrics.front();
  auto classes = classes_of(results);
  const auto entries = entries_of(results, figure);
  if (classes.empty() || entries.empty()) return "";
  figures::DotChart chart;
  chart.title = title_of(results, figure);
  chart.note = seeds_note(results);
  if (classes.size() > kMostRows) {
    chart.note += fmt::format(" The first {} of {} groups.", kMostRows, classes.size());
    classes.resize(kMostRows);
  }
  for (const size_t e : entries) chart.styles.push_back(results.experiment.entries[e].label);
  figures::DotPanel panel;
  panel.x = {metric_title(metric, results.unit), figure.log_x, find_metric(metric)->percent, {}};
  if (!find_metric(metric)->lower_is_better) panel.levels = unlearned_levels(results, metric);
  if (results.ceiling) chart.row_level_label = "second measurement";
  for (const auto& [label, groups] : classes) {
    chart.row_labels.push_back(label);
    if (results.ceiling) panel.row_levels.push_back(value_of(class_ceiling(results, groups), metric));
    panel.rows.emplace_back();
    for (size_t i = 0; i < entries.size(); ++i) {
      const auto spread = class_spread(results, entries[i], results.whole(), metric, groups);
      panel.rows.back().push_back({i, spread.mean, spread.low, spread.high});
    }
  }
  chart.panels.push_back(std::move(panel));
  return figures::draw(chart);
}

/// Entries as rows, metrics as panels.
std::string draw_metrics(const Results& results, const FigureSpec& figure) {
  figures::DotChart chart;
  chart.title = title_of(results, figure);
  chart.note = seeds_note(results);
  const auto entries = entries_of(results, figure);
  for (const size_t e : entries) chart.row_labels.push_back(results.experiment.entries[e].label);
  for (const auto& metric : figure.metrics) {
    const bool lower = find_metric(metric)->lower_is_better;
    figures::DotPanel panel;
    panel.title = metric_title(metric, results.unit);
    panel.x.percent = find_metric(metric)->percent;
    panel.x.title = lower ? "smaller is better" : "larger is better";
    panel.levels = levels_of(results, metric, !lower);
    bool any = false;
    for (const size_t e : entries) {
      const auto spread = results.spread(e, results.whole(), metric);
      any = any || spread.count > 0;
      panel.rows.push_back({{e, spread.mean, spread.low, spread.high}});
    }
    if (any) chart.panels.push_back(std::move(panel));
  }
  return chart.panels.empty() ? "" : figures::draw(chart);
}

}  // namespace

std::string draw_figure(const Results& results, const FigureSpec& figure) {
  switch (figure.kind) {
    case FigureKind::curves:
      return draw_curves(results, figure);
    case FigureKind::scatter:
      return draw_scatter(results, figure);
    case FigureKind::groups:
      return draw_groups(results, figure);
    case FigureKind::metrics:
      return draw_metrics(results, figure);
  }
  return "";
}

}  // namespace foretime::experiments
