#pragma once

#include <string>
#include <vector>

#include "experiments/figures/scale.h"

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

}  // namespace foretime::figures
