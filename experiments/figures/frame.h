#pragma once

#include <string>
#include <vector>

#include "experiments/figures/scale.h"
#include "experiments/figures/svg.h"

/// What all charts share: colours, axes, headings, legends.
namespace foretime::figures {

/// Colours that people with any colour vision tell apart, and that print (Okabe and Ito, "Color universal design",
/// 2008, without its yellow, which is lost on white). They repeat after eight; markers and dashes, which differ in
/// their period, go on telling series apart.
std::string series_color(size_t series);
Marker series_marker(size_t series);
/// Of reference lines, which are grey.
std::string reference_dashes(size_t reference);

constexpr double kTextSize = 12, kTickSize = 11, kTitleSize = 15, kNoteSize = 11;
inline constexpr const char* kGrey = "#666666";
inline constexpr const char* kLightGrey = "#dddddd";

/// Title and note above a drawing, each broken into lines of at most `width` pixels; returns where what follows may
/// begin. Draws nothing where `svg` is null.
double draw_heading(Svg* svg, const std::string& title, const std::string& note, double width);
std::vector<std::string> wrapped(const std::string& text, double size, double width, bool bold = false);

/// Pixels left of a panel that its labels and title take, and below it.
double left_margin(const Axis& axis, const Scale& scale);
constexpr double kBottomMargin = 48;

/// Grid, frame, ticks with labels (one that would touch its neighbour is left out) and titles, around `box`. `labels`:
/// false for a panel that shares its neighbour's vertical axis.
void draw_axes(Svg& svg, const Box& box, const Axis& x_axis, const Scale& x, const Axis& y_axis, const Scale& y,
               bool labels);

struct LegendItem {
  std::string label;
  std::string color;
  bool line = false, dot = false;
  std::string dashes;
  Marker marker = Marker::circle;
};
double legend_width(const std::vector<LegendItem>& items);
constexpr double kLegendLine = 20;
void draw_legend(Svg& svg, Point top_left, const std::vector<LegendItem>& items);

}  // namespace foretime::figures
