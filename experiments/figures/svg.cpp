#include "experiments/figures/svg.h"

#include <cmath>
#include <string_view>

#include <fmt/format.h>

namespace foretime::figures {
namespace {

constexpr const char* kFonts = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif";
constexpr double kHalfLetter = 0.36;  // of the size: from the base line to the middle of a capital

bool finite(Point p) { return std::isfinite(p.x) && std::isfinite(p.y); }

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (code >= 0x20 && code != 0x7f) {
      out += c;
    }
  }
  return out;
}

std::string attributes(const Stroke& stroke) {
  auto text = fmt::format(R"(stroke="{}" stroke-width="{:.4g}")", escaped(stroke.color), stroke.width);
  if (!stroke.dashes.empty()) text += fmt::format(R"( stroke-dasharray="{}")", escaped(stroke.dashes));
  if (stroke.opacity < 1) text += fmt::format(R"( stroke-opacity="{:.3g}")", stroke.opacity);
  return text;
}

/// Of the em; of the widest of the usual sans-serif fonts.
double width_of(char32_t c) {
  const auto in = [&](std::u32string_view letters) { return letters.find(c) != std::u32string_view::npos; };
  if (in(U"il.,:;'|!jI·")) return 0.32;
  if (in(U" ftr()[]/\\-\"*")) return 0.43;
  if (in(U"mwMW@%±–→")) return 0.98;
  if (c >= U'A' && c <= U'Z') return 0.76;
  return 0.64;
}

}  // namespace

Svg::Svg(double width, double height, const std::string& title) : width_(width), height_(height), title_(title) {}

void Svg::line(Point from, Point to, const Stroke& stroke) {
  if (!finite(from) || !finite(to)) return;
  body_ += fmt::format("<line x1=\"{:.2f}\" y1=\"{:.2f}\" x2=\"{:.2f}\" y2=\"{:.2f}\" {}/>\n", from.x, from.y, to.x,
                       to.y, attributes(stroke));
}

void Svg::path(const std::vector<Point>& points, const Stroke& stroke) {
  std::string d;
  bool down = false;
  for (const Point p : points) {
    if (finite(p)) d += fmt::format("{}{:.2f} {:.2f}", down ? "L" : "M", p.x, p.y);
    down = finite(p);
  }
  if (d.empty()) return;
  body_ += fmt::format("<path d=\"{}\" fill=\"none\" stroke-linejoin=\"round\" {}/>\n", d, attributes(stroke));
}

void Svg::area(const std::vector<Point>& outline, const std::string& color, double opacity) {
  std::string points;
  for (const Point p : outline) {
    if (!finite(p)) return;
    points += fmt::format("{:.2f},{:.2f} ", p.x, p.y);
  }
  if (points.empty()) return;
  points.pop_back();
  body_ +=
      fmt::format("<polygon points=\"{}\" fill=\"{}\" fill-opacity=\"{:.3g}\"/>\n", points, escaped(color), opacity);
}

void Svg::marker(Point at, Marker shape, double radius, const std::string& color) {
  if (!finite(at)) return;
  const double r = radius, x = at.x, y = at.y;
  const auto filled = [&](const std::vector<Point>& corners) {
    std::string points;
    for (const Point p : corners) points += fmt::format("{:.2f},{:.2f} ", p.x, p.y);
    points.pop_back();
    body_ += fmt::format("<polygon points=\"{}\" fill=\"{}\" stroke=\"#ffffff\" stroke-width=\"0.8\"/>\n", points,
                         escaped(color));
  };
  const Stroke thick{color, 0.6 * r, "", 1};
  switch (shape) {
    case Marker::circle:
      body_ += fmt::format(
          "<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"{:.2f}\" fill=\"{}\" stroke=\"#ffffff\" stroke-width=\"0.8\"/>\n", x,
          y, r, escaped(color));
      return;
    case Marker::square:
      return filled(
          {{x - .9 * r, y - .9 * r}, {x + .9 * r, y - .9 * r}, {x + .9 * r, y + .9 * r}, {x - .9 * r, y + .9 * r}});
    case Marker::triangle:
      return filled({{x, y - 1.2 * r}, {x + 1.1 * r, y + .8 * r}, {x - 1.1 * r, y + .8 * r}});
    case Marker::diamond:
      return filled({{x, y - 1.3 * r}, {x + 1.3 * r, y}, {x, y + 1.3 * r}, {x - 1.3 * r, y}});
    case Marker::cross:
      line({x - r, y - r}, {x + r, y + r}, thick);
      return line({x - r, y + r}, {x + r, y - r}, thick);
    case Marker::plus:
      line({x - 1.2 * r, y}, {x + 1.2 * r, y}, thick);
      return line({x, y - 1.2 * r}, {x, y + 1.2 * r}, thick);
  }
}

void Svg::dots(const std::vector<Point>& points, double radius, const std::string& color, double opacity) {
  std::string d;
  for (const Point p : points) {
    if (finite(p)) d += fmt::format("M{:.1f} {:.1f}h0", p.x, p.y);
  }
  if (d.empty()) return;
  body_ += fmt::format(
      "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{:.4g}\" stroke-linecap=\"round\" "
      "stroke-opacity=\"{:.3g}\"/>\n",
      d, escaped(color), 2 * radius, opacity);
}

void Svg::text(Point at, const std::string& text, const TextStyle& style) {
  if (!finite(at) || text.empty()) return;
  const char* anchor = style.anchor == Anchor::start ? "start" : style.anchor == Anchor::middle ? "middle" : "end";
  const double down = kHalfLetter * style.size;
  const Point base = style.upright ? Point{at.x + down, at.y} : Point{at.x, at.y + down};
  const auto turn =
      style.upright ? fmt::format(" transform=\"rotate(-90 {:.2f} {:.2f})\"", base.x, base.y) : std::string();
  body_ += fmt::format(
      "<text x=\"{:.2f}\" y=\"{:.2f}\" font-size=\"{:.4g}\" text-anchor=\"{}\" fill=\"{}\"{}{}>{}</text>\n", base.x,
      base.y, style.size, anchor, escaped(style.color), style.bold ? " font-weight=\"bold\"" : "", turn, escaped(text));
}

void Svg::begin_clip(const Box& box) {
  ++clips_;
  body_ += fmt::format(
      "<clipPath id=\"clip{0}\"><rect x=\"{1:.2f}\" y=\"{2:.2f}\" width=\"{3:.2f}\" height=\"{4:.2f}\"/></clipPath>\n"
      "<g clip-path=\"url(#clip{0})\">\n",
      clips_, box.left, box.top, box.width(), box.height());
}

void Svg::end_clip() { body_ += "</g>\n"; }

std::string Svg::finish() const {
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "font-family=\"{2}\">\n<title>{3}</title>\n"
      "<rect width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"#ffffff\"/>\n{4}</svg>\n",
      width_, height_, kFonts, escaped(title_), body_);
}

double text_width(const std::string& text, double size, bool bold) {
  double em = 0;
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    char32_t c = length == 1 ? lead : lead & (0xFFU >> (length + 1));
    for (size_t k = 1; k < length && i + k < text.size(); ++k)
      c = (c << 6) | (static_cast<unsigned char>(text[i + k]) & 0x3FU);
    em += width_of(c);
    i += length;
  }
  return em * size * (bold ? 1.08 : 1.0);
}

}  // namespace foretime::figures
