#pragma once

#include <string>
#include <vector>

/// Draws the common elements of charts: colours, axes, headings, legends.
namespace foretime::figures {

struct Point {
  double x = 0, y = 0;
};

struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;
  double width() const { return right - left; }
  double height() const { return bottom - top; }
};

struct Stroke {
  std::string color = "#000000";
  double width = 1;
  std::string dashes;  // SVG's stroke-dasharray; empty: solid
  double opacity = 1;
};

enum class Anchor { start, middle, end };

struct TextStyle {
  double size = 12;  // pixels
  Anchor anchor = Anchor::start;
  std::string color = "#222222";
  bool bold = false;
  bool upright = false;  // rotated by 90 degrees, read from below
};

enum class Marker { circle, square, triangle, diamond, plus };

/// Is a drawing as a stand-alone SVG 1.1 file: pixels, y downwards, white ground, no scripts and no external
/// references. Accepts any text: characters that XML forbids are escaped or dropped. Points that are not finite are not
/// drawn. Equal calls give equal bytes.
class Svg {
 public:
  /// Starts a drawing. `title` is for readers who do not see the drawing; it is not drawn.
  Svg(double width, double height, const std::string& title);

  /// Draws a line.
  void line(Point from, Point to, const Stroke& stroke);
  /// Draws a line through the points; a point that is not finite leaves a gap.
  void path(const std::vector<Point>& points, const Stroke& stroke);
  void area(const std::vector<Point>& outline, const std::string& color, double opacity);
  void marker(Point at, Marker shape, double radius, const std::string& color);
  /// Draws many dots of one colour as one element.
  void dots(const std::vector<Point>& points, double radius, const std::string& color, double opacity);
  /// Draws a text; `at` is the middle of the letters' height, not their base line.
  void text(Point at, const std::string& text, const TextStyle& style = {});
  /// Clips all drawing to the box until end_clip. Does not nest.
  void begin_clip(const Box& box);
  void end_clip();

  std::string finish() const;

 private:
  double width_, height_;
  std::string title_, body_;
  int clips_ = 0;
};

/// Returns the width of a text in pixels, rather too large than too small, since the reader's fonts are not known.
double text_width(const std::string& text, double size, bool bold = false);

/// Describes an axis.
struct Axis {
  std::string title;          // includes the unit
  bool log = false;           // values of 0 and below are not drawn
  bool percent = false;       // labels are 100 times the value, with %
  std::vector<double> ticks;  // empty: chosen automatically; ticks outside of the range are dropped
};

/// Is the smallest interval that contains the included values.
struct Range {
  double low = 0, high = 0;
  bool empty = true;

  /// Includes a value unless it is not finite or, on a logarithmic axis, not above 0.
  void include(double value, bool log);
};

struct Tick {
  double value = 0;
  std::string label;
};

/// Converts values to pixels.
class Scale {
 public:
  /// Widens `range` a little, so that no point is on the frame; an empty one or a single value becomes an interval
  /// around it. `from` and `to` are the pixels of its low and high end.
  Scale(const Axis& axis, const Range& range, double from, double to);

  /// Returns the pixel of a value; NaN if it is not finite or, on a logarithmic axis, not above 0.
  double at(double value) const;
  double low() const { return low_; }
  double high() const { return high_; }
  /// Returns the axis's ticks, or else about as many round values as fit, at least two.
  std::vector<Tick> ticks() const;

 private:
  std::vector<double> linear_steps(int about) const;
  std::vector<double> log_steps(int about) const;
  std::string label(double value, int digits) const;

  Axis axis_;
  double low_, high_, from_, to_;
};

/// Returns a colour that people with any colour vision can distinguish and that prints (Okabe and Ito, "Color universal
/// design", 2008, without its yellow, which is invisible on white). Colours repeat after eight; markers and dashes have
/// other periods and distinguish more series.
std::string series_color(size_t series);
Marker series_marker(size_t series);
/// Returns the dashes of a reference line, which is grey.
std::string reference_dashes(size_t reference);

constexpr double kTextSize = 12, kTickSize = 11, kTitleSize = 15, kNoteSize = 11;
inline constexpr const char* kGrey = "#666666";
inline constexpr const char* kLightGrey = "#dddddd";

/// Draws title and note above a drawing, each wrapped into lines of at most `width` pixels; returns the y below them.
/// Draws nothing if `svg` is null.
double draw_heading(Svg* svg, const std::string& title, const std::string& note, double width);
std::vector<std::string> wrapped(const std::string& text, double size, double width, bool bold = false);

/// Returns the pixels left of a panel for its labels and title.
double left_margin(const Axis& axis, const Scale& scale);
constexpr double kBottomMargin = 48;

/// Draws grid, frame, ticks with labels (skipping labels that would touch) and titles around `box`. `labels` is false
/// for a panel that shares its neighbour's vertical axis.
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
