#include "experiments/figures/line_chart.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/figures/frame.h"

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
  const double legend_height = kLegendLine * static_cast<double>(legend.size());
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

}  // namespace foretime::figures
