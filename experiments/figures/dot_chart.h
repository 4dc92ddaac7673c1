#pragma once

#include <string>
#include <vector>

#include "experiments/figures/line_chart.h"
#include "experiments/figures/scale.h"

namespace foretime::figures {

/// A value with what it spreads over; not drawn where it is not finite.
struct DotMark {
  size_t style = 0;
  double value = 0, low = 0, high = 0;
};

/// Rows from top to bottom, each with its marks, which stand one below the other within the row.
struct DotPanel {
  std::string title;
  Axis x;
  std::vector<std::vector<DotMark>> rows;  // as many as DotChart::row_labels
  std::vector<LevelLine> levels = {};      // drawn from top to bottom
  std::vector<double> row_levels = {};     // a level of each row of its own; empty, or as many as rows
};

struct DotChart {
  std::string title, note;
  std::vector<std::string> row_labels;  // shared by all panels
  std::vector<DotPanel> panels;
  std::vector<std::string> styles;  // labels of the marks for the legend, by style; empty: no legend for marks
  std::string row_level_label = {};
};

/// A stand-alone SVG: dots with ranges, easier to compare than bars, and free to begin anywhere but at 0. Levels of
/// equal label share their dashes and their place in the legend.
std::string draw(const DotChart& chart);

}  // namespace foretime::figures
