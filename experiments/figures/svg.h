#pragma once

#include <string>
#include <vector>

/// What all charts share: colours, axes, headings, legends.
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
  bool upright = false;  // turned by 90 degrees, to be read from below
};

enum class Marker { circle, square, triangle, diamond, plus };

/// A drawing as a stand-alone SVG 1.1 file: pixels, y downwards, white ground, no scripts and no outside references.
/// Any text may be given: what XML does not allow is escaped or left out. Points that are not finite are not drawn.
/// Equal calls give equal bytes.
class Svg {
 public:
  /// `title` is for readers who do not see the drawing; it is not drawn.
  Svg(double width, double height, const std::string& title);

  void line(Point from, Point to, const Stroke& stroke);
  /// A line through the points; one that is not finite leaves a gap.
  void path(const std::vector<Point>& points, const Stroke& stroke);
  void area(const std::vector<Point>& outline, const std::string& color, double opacity);
  void marker(Point at, Marker shape, double radius, const std::string& color);
  /// Many dots of one colour, as one element.
  void dots(const std::vector<Point>& points, double radius, const std::string& color, double opacity);
  /// `at` is the middle of the letters' height, not their base line.
  void text(Point at, const std::string& text, const TextStyle& style = {});
  /// What is drawn until end_clip shows inside of the box only. Does not nest.
  void begin_clip(const Box& box);
  void end_clip();

  std::string finish() const;

 private:
  double width_, height_;
  std::string title_, body_;
  int clips_ = 0;
};

/// Width of a text in pixels, rather too large than too small: the reader's fonts are not known.
double text_width(const std::string& text, double size, bool bold = false);

/// How an axis reads.
struct Axis {
  std::string title;          // with its unit
  bool log = false;           // values of 0 and below are not drawn
  bool percent = false;       // labels are 100 times the value, with %
  std::vector<double> ticks;  // empty: chosen; those outside of the range are left out
};

/// The least interval that holds some values.
struct Range {
  double low = 0, high = 0;
  bool empty = true;

  /// Leaves out what is not finite, and on a logarithmic axis what is not above 0.
  void include(double value, bool log);
};

struct Tick {
  double value = 0;
  std::string label;
};

/// Values to pixels.
class Scale {
 public:
  /// `range` is widened a little, so that nothing lies on the frame; an empty one, or one of a single value, becomes an
  /// interval around it. `from`, `to`: pixels of its low and its high end.
  Scale(const Axis& axis, const Range& range, double from, double to);

  /// NaN where the value has no place: not finite, or 0 and below on a logarithmic axis.
  double at(double value) const;
  double low() const { return low_; }
  double high() const { return high_; }
  /// The axis's own ticks, or about as many round values as there is room for; at least two, unless it has its own.
  std::vector<Tick> ticks() const;

 private:
  std::vector<double> linear_steps(int about) const;
  std::vector<double> log_steps(int about) const;
  std::string label(double value, int digits) const;

  Axis axis_;
  double low_, high_, from_, to_;
};

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
