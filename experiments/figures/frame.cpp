#include "experiments/figures/frame.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <sstream>

namespace foretime::figures {
namespace {

constexpr std::array<const char*, 8> kColors = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                                "#E69F00", "#56B4E9", "#000000", "#8A6D3B"};
constexpr std::array<Marker, 5> kMarkers = {Marker::circle, Marker::square, Marker::triangle, Marker::diamond,
                                            Marker::plus};
constexpr std::array<const char*, 4> kDashes = {"6 4", "2 3", "10 3 2 3", "1 4"};
constexpr double kTick = 4, kGap = 6, kSample = 26;

}  // namespace

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
