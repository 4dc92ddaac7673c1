#include "experiments/figures/charts.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace foretime::figures {
namespace {

constexpr double kLinePanelWidth = 520, kLinePanelHeight = 340, kLineRight = 18;

void draw_band(Svg& svg, const LineSeries& series, const Scale& x, const Scale& y) {
  if (series.low.size() != series.x.size() || series.high.size() != series.x.size()) return;
  std::vector<Point> outline, back;
  for (size_t i = 0; i < series.x.size(); ++i) {
    const Point high{x.at(series.x[i]), y.at(series.high[i])}, low{x.at(series.x[i]), y.at(series.low[i])};
    if (!std::isfinite(high.x) || !std::isfinite(high.y) || !std::isfinite(low.y)) continue;
    outline.push_back(high);
    back.push_back(low);
  }
  if (outline.size() == 1) return svg.line(outline.front(), back.front(), {series_color(series.style), 2, "", 0.5});
  outline.insert(outline.end(), back.rbegin(), back.rend());
  svg.area(outline, series_color(series.style), 0.15);
}

/// The last value that is drawn; NaN where none is.
double right_end(const LineSeries& series, const Scale& y) {
  for (size_t i = series.y.size(); i > 0; --i) {
    if (std::isfinite(y.at(series.y[i - 1]))) return series.y[i - 1];
  }
  return std::numeric_limits<double>::quiet_NaN();
}

std::vector<LegendItem> legend_of(const LineChart& chart, const Scale& y) {
  std::vector<std::pair<double, LegendItem>> items;
  for (const auto& series : chart.series)
    items.push_back({right_end(series, y),
                     {series.label, series_color(series.style), true, true, "", series_marker(series.style)}});
  for (size_t i = 0; i < chart.levels.size(); ++i)
    items.push_back({chart.levels[i].value, {chart.levels[i].label, kGrey, true, false, reference_dashes(i), {}}});
  std::stable_sort(items.begin(), items.end(), [](const auto& a, const auto& b) {
    return std::isfinite(a.first) && (!std::isfinite(b.first) || a.first > b.first);
  });
  std::vector<LegendItem> sorted;
  for (auto& [value, item] : items) sorted.push_back(std::move(item));
  return sorted;
}

constexpr double kDotPanelWidth = 270, kDotGapBetween = 26, kDotRight = 18, kDotPanelTitle = 22, kDotMarkHeight = 13,
                 kDotRowGap = 10;
constexpr size_t kColumns = 2;

std::vector<std::string> level_labels(const DotChart& chart) {
  std::vector<std::string> labels;
  for (const auto& panel : chart.panels) {
    for (const auto& level : panel.levels) {
      if (std::find(labels.begin(), labels.end(), level.label) == labels.end()) labels.push_back(level.label);
    }
  }
  return labels;
}

std::vector<LegendItem> legend_of(const DotChart& chart, const std::vector<std::string>& levels) {
  std::vector<LegendItem> items;
  for (size_t style = 0; style < chart.styles.size(); ++style)
    items.push_back({chart.styles[style], series_color(style), false, true, "", series_marker(style)});
  for (size_t i = 0; i < levels.size(); ++i) items.push_back({levels[i], kGrey, true, false, reference_dashes(i), {}});
  if (!chart.row_level_label.empty()) items.push_back({chart.row_level_label, kGrey, true, false, "", {}});
  return items;
}

size_t marks_in_a_row(const DotChart& chart) {
  size_t most = 1;
  for (const auto& panel : chart.panels) {
    for (const auto& row : panel.rows) most = std::max(most, row.size());
  }
  return most;
}

class Panel {
 public:
  Panel(Svg& svg, const DotPanel& panel, const Box& box, double row_height)
      : svg_(svg),
        panel_(panel),
        box_(box),
        row_height_(row_height),
        x_(panel.x, range_of(panel), box.left, box.right) {}

  void draw(const DotChart& chart, const std::vector<std::string>& levels, bool labels) {
    draw_ground(chart, labels);
    for (const auto& level : panel_.levels) {
      const size_t place = std::find(levels.begin(), levels.end(), level.label) - levels.begin();
      const double at = x_.at(level.value);
      svg_.line({at, box_.top}, {at, box_.bottom}, {kGrey, 1.6, reference_dashes(place), 1});
    }
    for (size_t r = 0; r < panel_.row_levels.size(); ++r) {
      const double at = x_.at(panel_.row_levels[r]), top = box_.top + r * row_height_;
      svg_.line({at, top + 1}, {at, top + row_height_ - 1}, {kGrey, 2, "", 1});
    }
    for (size_t r = 0; r < panel_.rows.size(); ++r) {
      const auto& row = panel_.rows[r];
      double y = box_.top + r * row_height_ + (row_height_ - kDotMarkHeight * row.size()) / 2 + kDotMarkHeight / 2;
      for (const auto& mark : row) {
        if (mark.high > mark.low)
          svg_.line({x_.at(mark.low), y}, {x_.at(mark.high), y}, {series_color(mark.style), 3, "", 0.45});
        svg_.marker({x_.at(mark.value), y}, series_marker(mark.style), 4.5, series_color(mark.style));
        y += kDotMarkHeight;
      }
    }
  }

 private:
  static Range range_of(const DotPanel& panel) {
    Range range;
    for (const auto& row : panel.rows) {
      for (const auto& mark : row) {
        for (const double value : {mark.value, mark.low, mark.high}) range.include(value, panel.x.log);
      }
    }
    for (const auto& level : panel.levels) range.include(level.value, panel.x.log);
    for (const double level : panel.row_levels) range.include(level, panel.x.log);
    return range;
  }

  /// Stripes behind every other row, and the axis.
  void draw_ground(const DotChart& chart, bool labels) {
    for (size_t r = 0; r < chart.row_labels.size(); ++r) {
      const double top = box_.top + r * row_height_, bottom = top + row_height_;
      if (r % 2 == 0)
        svg_.area({{box_.left, top}, {box_.right, top}, {box_.right, bottom}, {box_.left, bottom}}, "#000000", 0.04);
      if (labels)
        svg_.text({box_.left - 8, (top + bottom) / 2}, chart.row_labels[r], {.size = kTextSize, .anchor = Anchor::end});
    }
    Axis none;
    none.ticks = {-1};  // outside of the range: no horizontal grid
    draw_axes(svg_, box_, panel_.x, x_, none, Scale(none, {0, 1, false}, box_.bottom, box_.top), false);
    svg_.text({box_.left, box_.top - 12}, panel_.title, {.size = kTextSize, .bold = true});
  }

  Svg& svg_;
  const DotPanel& panel_;
  Box box_;
  double row_height_;
  Scale x_;
};

constexpr double kScatterPanelSize = 270, kScatterGapBetween = 34, kScatterRight = 18, kScatterPanelTitle = 40;

std::vector<LegendItem> legend_of(const ScatterChart& chart) {
  std::vector<LegendItem> items;
  for (const auto& panel : chart.panels) {
    for (const auto& cloud : panel.clouds) {
      const bool there =
          std::any_of(items.begin(), items.end(), [&](const LegendItem& item) { return item.label == cloud.label; });
      if (!there) items.push_back({cloud.label, series_color(cloud.style), false, true, "", Marker::circle});
    }
  }
  if (items.size() < 2) items.clear();
  return items;
}

/// Few points are large and solid, many are small and let others shine through.
double opacity_for(size_t points) { return std::clamp(30.0 / std::sqrt(static_cast<double>(points) + 1), 0.15, 0.8); }

}  // namespace

std::string draw(const LineChart& chart) {
  Range x_range, y_range;
  for (const auto& series : chart.series) {
    for (const double value : series.x) x_range.include(value, chart.x.log);
    for (const auto* values : {&series.y, &series.low, &series.high}) {
      for (const double value : *values) y_range.include(value, chart.y.log);
    }
  }
  for (const auto& level : chart.levels) y_range.include(level.value, chart.y.log);
  const Scale probe(chart.y, y_range, kLinePanelHeight, 0);
  const auto legend = legend_of(chart, probe);
  const double left = left_margin(chart.y, probe);
  const double width = left + kLinePanelWidth + kLineRight + legend_width(legend) + kLineRight;
  const double top = draw_heading(nullptr, chart.title, chart.note, width);
  const double legend_height = kLegendLine * legend.size();
  Svg svg(width, top + std::max(kLinePanelHeight + kBottomMargin, legend_height) + 8, chart.title);
  draw_heading(&svg, chart.title, chart.note, width);
  const Box box{left, top, left + kLinePanelWidth, top + kLinePanelHeight};
  const Scale x(chart.x, x_range, box.left, box.right), y(chart.y, y_range, box.bottom, box.top);
  draw_axes(svg, box, chart.x, x, chart.y, y, true);
  for (const auto& series : chart.series) draw_band(svg, series, x, y);
  for (size_t i = 0; i < chart.levels.size(); ++i) {
    const double at = y.at(chart.levels[i].value);
    svg.line({box.left, at}, {box.right, at}, {kGrey, 1.6, reference_dashes(i), 1});
  }
  for (const auto& series : chart.series) {
    std::vector<Point> points;
    for (size_t i = 0; i < series.x.size(); ++i) points.push_back({x.at(series.x[i]), y.at(series.y[i])});
    svg.path(points, {series_color(series.style), 2, "", 1});
    for (const Point p : points) svg.marker(p, series_marker(series.style), 4.5, series_color(series.style));
  }
  draw_legend(svg, {box.right + kLineRight, box.top}, legend);
  return svg.finish();
}

std::string draw(const DotChart& chart) {
  const auto levels = level_labels(chart);
  const auto legend = legend_of(chart, levels);
  double left = 14;
  for (const auto& label : chart.row_labels) left = std::max(left, 14 + text_width(label, kTextSize) + 10);
  const size_t count = std::max<size_t>(1, chart.panels.size()), columns = std::min(kColumns, count);
  const double rows = chart.row_labels.size();
  const double row_height = kDotMarkHeight * marks_in_a_row(chart) + kDotRowGap;
  const double panel_height = kDotPanelTitle + row_height * rows + kBottomMargin + 6;
  const double wide = count == 1 ? 1.6 * kDotPanelWidth : kDotPanelWidth, panels = columns;
  const double panels_end = left + panels * wide + (panels - 1) * kDotGapBetween;
  const double width = panels_end + kDotRight + (legend.empty() ? 0 : legend_width(legend) + kDotRight);
  const double top = draw_heading(nullptr, chart.title, chart.note, width);
  const double height =
      std::max(panel_height * ((count + columns - 1) / columns), kDotPanelTitle + kLegendLine * legend.size());
  Svg svg(width, top + height + 8, chart.title);
  draw_heading(&svg, chart.title, chart.note, width);
  for (size_t i = 0; i < chart.panels.size(); ++i) {
    const double x0 = left + (i % columns) * (wide + kDotGapBetween);
    const double y0 = top + (i / columns) * panel_height + kDotPanelTitle;
    Panel(svg, chart.panels[i], {x0, y0, x0 + wide, y0 + row_height * rows}, row_height)
        .draw(chart, levels, i % columns == 0);
  }
  draw_legend(svg, {panels_end + kDotRight, top + kDotPanelTitle}, legend);
  return svg.finish();
}

std::string draw(const ScatterChart& chart) {
  Range range;  // range of both axes
  for (const auto& panel : chart.panels) {
    for (const auto& cloud : panel.clouds) {
      for (const double value : cloud.x) range.include(value, chart.x.log);
      for (const double value : cloud.y) range.include(value, chart.y.log);
    }
  }
  const Scale probe(chart.y, range, kScatterPanelSize, 0);
  const auto legend = legend_of(chart);
  const size_t count = std::max<size_t>(1, chart.panels.size()), columns = count == 4 ? 2 : std::min<size_t>(3, count);
  const size_t rows = (count + columns - 1) / columns;
  const double left = left_margin(chart.y, probe), panels = columns;
  const double width = left + panels * kScatterPanelSize + (panels - 1) * kScatterGapBetween + kScatterRight +
                       (legend.empty() ? 0 : legend_width(legend) + kScatterRight);
  const double top = draw_heading(nullptr, chart.title, chart.note, width);
  const double row_height = kScatterPanelTitle + kScatterPanelSize + kBottomMargin;
  const double height = top + std::max(rows * row_height, kScatterPanelTitle + kLegendLine * legend.size());
  Svg svg(width, height + 8, chart.title);
  draw_heading(&svg, chart.title, chart.note, width);
  for (size_t i = 0; i < chart.panels.size(); ++i) {
    const auto& panel = chart.panels[i];
    const double x0 = left + (i % columns) * (kScatterPanelSize + kScatterGapBetween);
    const double y0 = top + (i / columns) * row_height + kScatterPanelTitle;
    const Box box{x0, y0, x0 + kScatterPanelSize, y0 + kScatterPanelSize};
    const Scale x(chart.x, range, box.left, box.right), y(chart.y, range, box.bottom, box.top);
    draw_axes(svg, box, chart.x, x, chart.y, y, i % columns == 0);
    svg.text({box.left, box.top - 27}, panel.title, {.size = kTextSize, .bold = true});
    svg.text({box.left, box.top - 11}, panel.note, {.size = kNoteSize, .color = kGrey});
    svg.begin_clip(box);
    size_t points = 0;
    for (const auto& cloud : panel.clouds) points += cloud.x.size();
    for (const auto& cloud : panel.clouds) {
      std::vector<Point> dots;
      for (size_t k = 0; k < cloud.x.size(); ++k) dots.push_back({x.at(cloud.x[k]), y.at(cloud.y[k])});
      svg.dots(dots, points > 1000 ? 1.7 : 2.4, series_color(cloud.style), opacity_for(points));
    }
    const double low = std::max(x.low(), y.low()), high = std::min(x.high(), y.high());
    svg.line({x.at(low), y.at(low)}, {x.at(high), y.at(high)}, {"#000000", 1, "5 3", 0.8});
    svg.end_clip();
  }
  draw_legend(
      svg,
      {left + panels * kScatterPanelSize + (panels - 1) * kScatterGapBetween + kScatterRight, top + kScatterPanelTitle},
      legend);
  return svg.finish();
}

}  // namespace foretime::figures
