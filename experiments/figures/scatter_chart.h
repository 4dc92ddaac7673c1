#pragma once

#include <string>
#include <vector>

#include "experiments/figures/scale.h"

namespace foretime::figures {

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
