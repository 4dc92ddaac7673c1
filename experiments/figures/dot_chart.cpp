#include "experiments/figures/dot_chart.h"

#include <algorithm>
#include <cmath>

#include "experiments/figures/frame.h"

namespace foretime::figures {
namespace {

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
      const auto place = static_cast<size_t>(std::find(levels.begin(), levels.end(), level.label) - levels.begin());
      const double at = x_.at(level.value);
      svg_.line({at, box_.top}, {at, box_.bottom}, {kGrey, 1.6, reference_dashes(place), 1});
    }
    for (size_t r = 0; r < panel_.row_levels.size(); ++r) {
      const double at = x_.at(panel_.row_levels[r]), top = box_.top + static_cast<double>(r) * row_height_;
      svg_.line({at, top + 1}, {at, top + row_height_ - 1}, {kGrey, 2, "", 1});
    }
    for (size_t r = 0; r < panel_.rows.size(); ++r) {
      const auto& row = panel_.rows[r];
      double y = box_.top + static_cast<double>(r) * row_height_ +
                 (row_height_ - kDotMarkHeight * static_cast<double>(row.size())) / 2 + kDotMarkHeight / 2;
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
      const double top = box_.top + static_cast<double>(r) * row_height_, bottom = top + row_height_;
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

}  // namespace

std::string draw(const DotChart& chart) {
  const auto levels = level_labels(chart);
  const auto legend = legend_of(chart, levels);
  double left = 14;
  for (const auto& label : chart.row_labels) left = std::max(left, 14 + text_width(label, kTextSize) + 10);
  const size_t count = std::max<size_t>(1, chart.panels.size()), columns = std::min(kColumns, count);
  const auto rows = static_cast<double>(chart.row_labels.size());
  const double row_height = kDotMarkHeight * static_cast<double>(marks_in_a_row(chart)) + kDotRowGap;
  const double panel_height = kDotPanelTitle + row_height * rows + kBottomMargin + 6;
  const double wide = count == 1 ? 1.6 * kDotPanelWidth : kDotPanelWidth, panels = static_cast<double>(columns);
  const double panels_end = left + panels * wide + (panels - 1) * kDotGapBetween;
  const double width = panels_end + kDotRight + (legend.empty() ? 0 : legend_width(legend) + kDotRight);
  const double top = draw_heading(nullptr, chart.title, chart.note, width);
  const double height = std::max(panel_height * static_cast<double>((count + columns - 1) / columns),
                                 kDotPanelTitle + kLegendLine * static_cast<double>(legend.size()));
  Svg svg(width, top + height + 8, chart.title);
  draw_heading(&svg, chart.title, chart.note, width);
  for (size_t i = 0; i < chart.panels.size(); ++i) {
    const double x0 = left + static_cast<double>(i % columns) * (wide + kDotGapBetween);
    const double y0 = top + static_cast<double>(i / columns) * panel_height + kDotPanelTitle;
    Panel(svg, chart.panels[i], {x0, y0, x0 + wide, y0 + row_height * rows}, row_height)
        .draw(chart, levels, i % columns == 0);
  }
  draw_legend(svg, {panels_end + kDotRight, top + kDotPanelTitle}, legend);
  return svg.finish();
}

}  // namespace foretime::figures
