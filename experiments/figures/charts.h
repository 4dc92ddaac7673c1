#pragma once

#include <string>
#include <vector>

#include "experiments/figures/svg.h"

namespace foretime::figures {

/// One curve with, where they are given, the lowest and highest values around it, drawn as a band. The vectors are as
/// long as `x`; a value that is not finite is not drawn.
struct LineSeries {
  std::string label;
  std::vector<double> x, y, low, high;
  size_t style = 0;  // which colour and marker
};

/// A level to compare with, drawn as a dashed line.
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

/// A stand-alone SVG. The legend stands beside the panel, in the order of the curves' right ends.
std::string draw(const LineChart& chart);

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

/// Points of one kind, told from others by their colour.
struct PointCloud {
  std::string label;
  std::vector<double> x, y;  // of one length
  size_t style = 0;
};

struct ScatterPanel {
  std::string title, note;
  std::vector<PointCloud> clouds;
};

/// Panels side by side with the same axes; both axes show the same range, and a line where they are equal.
struct ScatterChart {
  std::string title, note;
  Axis x, y;
  std::vector<ScatterPanel> panels;
};

/// A stand-alone SVG. Clouds of equal label share their place in the legend, which is left out for a single one.
std::string draw(const ScatterChart& chart);

}  // namespace foretime::figures
