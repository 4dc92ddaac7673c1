#pragma once

#include <string>
#include <utility>
#include <vector>

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

enum class Marker { circle, square, triangle, diamond, cross, plus };

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

}  // namespace foretime::figures
