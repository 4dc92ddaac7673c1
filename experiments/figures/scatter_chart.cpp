#include "experiments/figures/scatter_chart.h"

#include <algorithm>
#include <cmath>

#include "experiments/figures/frame.h"

namespace foretime::figures {
namespace {

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

std::string draw(const ScatterChart& chart) {
  Range range;  // of both axes
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
  const double left = left_margin(chart.y, probe), panels = static_cast<double>(columns);
  const double width = left + panels * kScatterPanelSize + (panels - 1) * kScatterGapBetween + kScatterRight +
                       (legend.empty() ? 0 : legend_width(legend) + kScatterRight);
  const double top = draw_heading(nullptr, chart.title, chart.note, width);
  const double row_height = kScatterPanelTitle + kScatterPanelSize + kBottomMargin;
  const double height = top + std::max(static_cast<double>(rows) * row_height,
                                       kScatterPanelTitle + kLegendLine * static_cast<double>(legend.size()));
  Svg svg(width, height + 8, chart.title);
  draw_heading(&svg, chart.title, chart.note, width);
  for (size_t i = 0; i < chart.panels.size(); ++i) {
    const auto& panel = chart.panels[i];
    const double x0 = left + static_cast<double>(i % columns) * (kScatterPanelSize + kScatterGapBetween);
    const double y0 = top + static_cast<double>(i / columns) * row_height + kScatterPanelTitle;
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
