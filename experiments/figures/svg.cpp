#include "experiments/figures/svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <sstream>

#include <fmt/format.h>

#include "base/output_target.h"

namespace foretime::figures {
namespace {

constexpr const char* kFonts = "Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif";
constexpr double kHalfLetter = 0.36;  // base line to the middle of a capital, relative to the size

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

/// Returns the width of a character in em, for the widest of the usual sans-serif fonts.
double width_of(char32_t c) {
  const auto in = [&](std::u32string_view letters) { return letters.find(c) != std::u32string_view::npos; };
  if (in(U"il.,:;'|!jI·")) return 0.32;
  if (in(U" ftr()[]/\\-\"*")) return 0.43;
  if (in(U"mwMW@%±–→")) return 0.98;
  if (c >= U'A' && c <= U'Z') return 0.76;
  return 0.64;
}

constexpr double kMargin = 0.05;                        // share of the range added at each end
constexpr double kPixelsPerTick = 45;                   // labels of neighbouring ticks stay apart
constexpr double kLargest = 1e300, kSmallest = 1e-300;  // beyond: differences of such values may not be finite

constexpr std::array<const char*, 8> kColors = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                                "#E69F00", "#56B4E9", "#000000", "#8A6D3B"};
constexpr std::array<Marker, 5> kMarkers = {Marker::circle, Marker::square, Marker::triangle, Marker::diamond,
                                            Marker::plus};
constexpr std::array<const char*, 4> kDashes = {"6 4", "2 3", "10 3 2 3", "1 4"};
constexpr double kTick = 4, kGap = 6, kSample = 26;

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
      "font-family=\"{2}\">\n{5}\n<title>{3}</title>\n"
      "<rect width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"#ffffff\"/>\n{4}</svg>\n",
      width_, height_, kFonts, escaped(title_), body_, kExperimentMark);
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

void Range::include(double value, bool log) {
  if (!std::isfinite(value) || std::abs(value) > kLargest || (log && value < kSmallest)) return;
  low = empty ? value : std::min(low, value);
  high = empty ? value : std::max(high, value);
  empty = false;
}

Scale::Scale(const Axis& axis, const Range& range, double from, double to)
    : axis_(axis), low_(range.low), high_(range.high), from_(from), to_(to) {
  if (range.empty) {
    low_ = axis.log ? 0.1 : 0;
    high_ = 1;
  }
  if (axis.log) {
    const double wide = high_ > low_ * 1.001 ? std::pow(high_ / low_, kMargin) : 1.3;
    low_ /= wide;
    high_ *= wide;
    return;
  }
  const double size = high_ - low_;
  const double wide = size > 1e-9 * std::abs(high_) ? kMargin * size : std::max(0.5, 0.1 * std::abs(high_));
  low_ -= wide;
  high_ += wide;
}

double Scale::at(double value) const {
  if (!std::isfinite(value) || (axis_.log && value <= 0)) return std::numeric_limits<double>::quiet_NaN();
  const double part = axis_.log ? std::log(value / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
  return from_ + part * (to_ - from_);
}

std::vector<double> Scale::linear_steps(int about) const {
  std::vector<double> values;
  for (; values.size() < 2; ++about) {
    const double raw = (high_ - low_) / about, power = std::pow(10, std::floor(std::log10(raw)));
    double step = 10 * power;
    for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
      if (factor * power >= raw) {
        step = factor * power;
        break;
      }
    }
    values.clear();
    for (double k = std::ceil(low_ / step); k * step <= high_ && values.size() < 100; ++k) values.push_back(k * step);
  }
  return values;
}

std::vector<double> Scale::log_steps(int about) const {
  const int first = std::floor(std::log10(low_));
  const int last = std::ceil(std::log10(high_));
  const auto steps = [&](const std::vector<double>& digits, int every) {
    std::vector<double> values;
    for (int power = first; power <= last; power += every) {
      for (const double digit : digits) {
        const double value = digit * std::pow(10.0, power);
        if (value >= low_ && value <= high_) values.push_back(value);
      }
    }
    return values;
  };
  std::vector<double> best;  // powers of ten, as few as there is room for
  for (int every = std::max(1, (last - first) / about); every > 0 && best.size() < 2; --every) best = steps({1}, every);
  for (const std::vector<double>& digits :
       {std::vector<double>{1, 3}, {1, 2, 5}, {1, 1.5, 2, 3, 5, 7}, {1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9}}) {
    const auto finer = steps(digits, 1);
    const bool too_many = finer.size() > static_cast<size_t>(about) && best.size() >= 2;
    if (best.size() >= 4 || best.size() >= static_cast<size_t>(about) || too_many) break;
    best = finer;
  }
  return best.size() >= 2 ? best : linear_steps(about);
}

std::string Scale::label(double value, int digits) const {
  if (std::abs(value) < 1e-12 * std::max(std::abs(low_), std::abs(high_))) value = 0;
  if (axis_.percent) return fmt::format("{:.{}g} %", 100 * value, digits);
  const double size = std::abs(value);
  return size >= 1e4 && size < 1e6 ? fmt::format("{:.{}g}", value, std::max(digits, 6))
                                   : fmt::format("{:.{}g}", value, digits);
}

std::vector<Tick> Scale::ticks() const {
  auto values = axis_.ticks;
  if (values.empty()) {
    const int about = std::clamp(static_cast<int>(std::abs(to_ - from_) / kPixelsPerTick), 2, 10);
    values = axis_.log ? log_steps(about) : linear_steps(about);
  }
  std::erase_if(values, [&](double value) { return !(value >= low_ && value <= high_); });
  // As many digits as it takes to tell neighbours apart.
  std::vector<Tick> ticks;
  for (int digits = 4; digits <= 16; ++digits) {
    ticks.clear();
    for (const double value : values) ticks.push_back({value, label(value, digits)});
    const auto same = [](const Tick& a, const Tick& b) { return a.label == b.label; };
    if (std::adjacent_find(ticks.begin(), ticks.end(), same) == ticks.end()) break;
  }
  return ticks;
}

std::string series_color(size_t series) { return kColors[series % kColors.size()]; }
Marker series_marker(size_t series) { return kMarkers[series % kMarkers.size()]; }
std::string reference_dashes(size_t reference) { return kDashes[reference % kDashes.size()]; }

std::vector<std::string> wrapped(const std::string& text, double size, double width, bool bold) {
  std::vector<std::string> lines;
  std::istringstream words(text);
  std::string line;
  for (std::string word; words >> word;) {
    const auto longer = line.empty() ? word : line + " " + word;
    if (!line.empty() && text_width(longer, size, bold) > width) {
      lines.push_back(line);
      line = word;
    } else {
      line = longer;
    }
  }
  if (!line.empty()) lines.push_back(line);
  return lines;
}

double draw_heading(Svg* svg, const std::string& title, const std::string& note, double width) {
  constexpr double kLeft = 14;
  double y = 10;
  for (const auto& line : wrapped(title, kTitleSize, width - 2 * kLeft, true)) {
    y += kTitleSize / 2 + 3;
    if (svg != nullptr) svg->text({kLeft, y}, line, {.size = kTitleSize, .bold = true});
    y += kTitleSize / 2 + 3;
  }
  for (const auto& line : wrapped(note, kNoteSize, width - 2 * kLeft)) {
    y += kNoteSize / 2 + 2;
    if (svg != nullptr) svg->text({kLeft, y}, line, {.size = kNoteSize, .color = kGrey});
    y += kNoteSize / 2 + 2;
  }
  return y + 10;
}

double left_margin(const Axis& axis, const Scale& scale) {
  double widest = 0;
  for (const auto& tick : scale.ticks()) widest = std::max(widest, text_width(tick.label, kTickSize));
  return 14 + (axis.title.empty() ? 0 : kTextSize + kGap) + widest + kTick + kGap;
}

void draw_axes(Svg& svg, const Box& box, const Axis& x_axis, const Scale& x, const Axis& y_axis, const Scale& y,
               bool labels) {
  const Stroke grid{kLightGrey, 1, "", 1}, frame{kGrey, 1, "", 1};
  double taken = -std::numeric_limits<double>::infinity();
  for (const auto& tick : x.ticks()) {
    const double at = x.at(tick.value), half = text_width(tick.label, kTickSize) / 2;
    svg.line({at, box.top}, {at, box.bottom}, grid);
    svg.line({at, box.bottom}, {at, box.bottom + kTick}, frame);
    if (at - half < taken) continue;
    svg.text({at, box.bottom + kTick + kTickSize}, tick.label, {.size = kTickSize, .anchor = Anchor::middle});
    taken = at + half + 3;
  }
  taken = std::numeric_limits<double>::infinity();
  double widest = 0;
  for (const auto& tick : y.ticks()) {
    const double at = y.at(tick.value);
    svg.line({box.left, at}, {box.right, at}, grid);
    svg.line({box.left - kTick, at}, {box.left, at}, frame);
    if (!labels || at + kTickSize / 2 > taken) continue;
    svg.text({box.left - kTick - kGap / 2, at}, tick.label, {.size = kTickSize, .anchor = Anchor::end});
    widest = std::max(widest, text_width(tick.label, kTickSize));
    taken = at - kTickSize / 2 - 2;
  }
  svg.path({{box.left, box.top}, {box.left, box.bottom}, {box.right, box.bottom}}, frame);
  svg.text({(box.left + box.right) / 2, box.bottom + kTick + kTickSize + kTextSize + 8}, x_axis.title,
           {.size = kTextSize, .anchor = Anchor::middle});
  if (labels)
    svg.text({box.left - kTick - kGap - widest - kTextSize / 2 - 2, (box.top + box.bottom) / 2}, y_axis.title,
             {.size = kTextSize, .anchor = Anchor::middle, .upright = true});
}

double legend_width(const std::vector<LegendItem>& items) {
  double widest = 0;
  for (const auto& item : items) widest = std::max(widest, text_width(item.label, kTextSize));
  return items.empty() ? 0 : kSample + kGap + widest;
}

void draw_legend(Svg& svg, Point top_left, const std::vector<LegendItem>& items) {
  double y = top_left.y + kLegendLine / 2;
  for (const auto& item : items) {
    if (item.line) svg.line({top_left.x, y}, {top_left.x + kSample, y}, {item.color, 2, item.dashes, 1});
    if (item.dot) svg.marker({top_left.x + kSample / 2, y}, item.marker, 4.5, item.color);
    svg.text({top_left.x + kSample + kGap, y}, item.label, {.size = kTextSize});
    y += kLegendLine;
  }
}

}  // namespace foretime::figures
