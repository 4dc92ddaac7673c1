#pragma once

#include <string>
#include <vector>

#include "experiments/figures/svg.h"

namespace foretime::figures {

/// Is one curve, optionally with the lowest and highest values around it, drawn as a band. The vectors have the length
/// of `x`; values that are not finite are not drawn.
struct LineSeries {
  std::string label;
  std::vector<double> x, y, low, high;
  size_t style = 0;  // number of colour and marker
};

/// Is a level for comparison, drawn as a dashed line.
struct LevelLine {
  std::string label;
  double value = 0;
};

struct LineChart {
  std::string title, note;
  Axis x, y;
  std::vector<LineSeries> series;
  std::vector<LevelLine> levels;
};

/// Returns a stand-alone SVG. The legend is next to the panel, in the order of the curves' right ends.
std::string draw(const LineChart& chart);

/// Is a value with its range; not drawn if it is not finite.
struct DotMark {
  size_t style = 0;
  double value = 0, low = 0, high = 0;
};

/// Holds rows from top to bottom, each with its marks, which are drawn below each other within the row.
struct DotPanel {
  std::string title;
  Axis x;
  std::vector<std::vector<DotMark>> rows;  // [DotChart::row_labels]
  std::vector<LevelLine> levels = {};      // drawn from top to bottom
  std::vector<double> row_levels = {};     // [rows] separate level of each row; may be empty
};

struct DotChart {
  std::string title, note;
  std::vector<std::string> row_labels;  // shared by all panels
  std::vector<DotPanel> panels;
  std::vector<std::string> styles;  // labels of the marks for the legend, by style; empty: no marks in the legend
  std::string row_level_label = {};
};

/// Returns a stand-alone SVG: dots with ranges, which are easier to compare than bars and need not start at 0. Levels
/// with equal labels share their dashes and their entry in the legend.
std::string draw(const DotChart& chart);

/// Holds points of one kind, drawn in one colour.
struct PointCloud {
  std::string label;
  std::vector<double> x, y;  // equally many
  size_t style = 0;
};

struct ScatterPanel {
  std::string title, note;
  std::vector<PointCloud> clouds;
};

/// Holds panels next to each other with the same axes; both axes show the same range, with a line at equal values.
struct ScatterChart {
  std::string title, note;
  Axis x, y;
  std::vector<ScatterPanel> panels;
};

/// Returns a stand-alone SVG. Clouds with equal labels share their entry in the legend, which is omitted for a single
/// one.
std::string draw(const ScatterChart& chart);

}  // namespace foretime::figures
