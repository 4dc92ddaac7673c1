#include <cmath>
#include <limits>
#include <random>
#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/figures/charts.h"
#include "experiments/figures/svg.h"

namespace foretime::figures {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinite = std::numeric_limits<double>::infinity();

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// Elements opened and closed in order, and no number that is none: what a reader of SVG needs.
void expect_well_formed(const std::string& svg) {
  std::vector<std::string> open;
  const std::regex tag(R"(<(/?)([a-zA-Z]+)((?:[^>"]|"[^"]*")*?)(/?)>)");
  for (std::sregex_iterator it(svg.begin(), svg.end(), tag), end; it != end; ++it) {
    const auto& match = *it;
    if (match[1] == "/") {
      ASSERT_FALSE(open.empty());
      EXPECT_EQ(open.back(), match[2]);
      open.pop_back();
    } else if (match[4] != "/") {
      open.push_back(match[2]);
    }
  }
  EXPECT_TRUE(open.empty());
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

LineChart simple_lines() {
  LineChart chart;
  chart.title = "title";
  chart.x = {"share", true, true, {0.05, 0.1, 1}};
  chart.y = {"error (ms)", true, false, {}};
  chart.series = {
      {.label = "a", .x = {0.05, 0.1, 1}, .y = {3, 2, 1}, .low = {2.5, 1.5, 0.9}, .high = {4, 3, 1.2}, .style = 0},
      {.label = "b", .x = {0.05, 0.1, 1}, .y = {2, 1, 0.3}, .low = {}, .high = {}, .style = 1}};
  chart.levels = {{"noise", 0.12}};
  return chart;
}

TEST(Scale, PlacesValuesAndLeavesOutWhatHasNoPlace) {
  const Scale linear({.title = "", .ticks = {}}, {0, 10, false}, 100, 200);
  EXPECT_DOUBLE_EQ(linear.at(5), 150);
  EXPECT_LT(linear.at(10), 200);  // nothing lies on the frame
  EXPECT_GT(linear.at(0), 100);
  const Scale log({.title = "", .log = true, .ticks = {}}, {0.1, 10, false}, 0, 100);
  EXPECT_NEAR(log.at(1), 50, 1e-9);
  EXPECT_TRUE(std::isnan(log.at(0)));
  EXPECT_TRUE(std::isnan(log.at(-1)));
  EXPECT_TRUE(std::isnan(linear.at(kInfinite)));
  Range range;
  for (const double value : {0.0, kNone, kInfinite, -2.0, 3.0}) range.include(value, true);
  EXPECT_EQ(range.low, 3);
  EXPECT_EQ(range.high, 3);
}

TEST(Scale, TicksAreRoundRisingAndApart) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 3000; ++round) {
    const bool log = round % 2 == 0;
    const double low = std::pow(10, static_cast<double>(random() % 24) - 12);
    const double high = low * (1 + std::pow(10, static_cast<double>(random() % 140) / 10 - 4));
    const double pixels = 100 + static_cast<double>(random() % 900);
    const Scale scale({.title = "", .log = log, .ticks = {}}, {low, high, false}, 0, pixels);
    const auto ticks = scale.ticks();
    ASSERT_GE(ticks.size(), 2U) << low << " " << high << " " << log;
    ASSERT_LE(ticks.size(), 14U) << low << " " << high << " " << log;
    for (size_t i = 1; i < ticks.size(); ++i) {
      EXPECT_LT(scale.at(ticks[i - 1].value), scale.at(ticks[i].value));
      EXPECT_NE(ticks[i - 1].label, ticks[i].label) << low << " " << high << " " << log;
    }
  }
}

TEST(Scale, KnownTicks) {
  const auto labels = [](const Axis& axis, const Range& range, double pixels) {
    std::string text;
    for (const auto& tick : Scale(axis, range, 0, pixels).ticks()) text += tick.label + ";";
    return text;
  };
  EXPECT_EQ(labels({.title = "", .ticks = {}}, {0, 1, false}, 270), "0;0.2;0.4;0.6;0.8;1;");
  EXPECT_EQ(labels({.title = "", .log = true, .ticks = {}}, {0.01, 100, false}, 270), "0.01;0.1;1;10;100;");
  EXPECT_EQ(labels({.title = "", .log = true, .ticks = {}}, {0.2, 7, false}, 340), "0.2;0.5;1;2;5;");
  EXPECT_EQ(labels({.title = "", .log = true, .percent = true, .ticks = {0.05, 0.5, 1, 7}}, {0.05, 1, false}, 500),
            "5 %;50 %;100 %;");
}

TEST(Text, WidthsAreNeverTooSmall) {
  // Of DejaVu Sans, which is wider than Helvetica and Arial, at 12 pixels.
  EXPECT_GE(text_width("XGBoost, loop features", 12), 138);
  EXPECT_GE(text_width("pairwise accuracy", 12), 107);
  EXPECT_EQ(text_width("é", 10), text_width("e", 10));  // characters, not bytes
  EXPECT_EQ(wrapped("one two three", 12, 60), (std::vector<std::string>{"one two", "three"}));
  EXPECT_EQ(wrapped("unbreakable", 12, 10), std::vector<std::string>{"unbreakable"});
}

TEST(Palette, SeriesDiffer) {
  for (size_t a = 0; a < 40; ++a) {
    for (size_t b = 0; b < a; ++b)
      EXPECT_FALSE(series_color(a) == series_color(b) && series_marker(a) == series_marker(b)) << a << " " << b;
  }
}

TEST(LineChart, HasWhatItWasGiven) {
  const auto svg = draw(simple_lines());
  expect_well_formed(svg);
  for (const char* text : {">title<", ">a<", ">b<", ">noise<", ">error (ms)<", ">5 %<", ">100 %<"})
    EXPECT_THAT(svg, HasSubstr(text)) << text;
  EXPECT_EQ(count(svg, "<circle"), 4U);             // three points and the legend
  EXPECT_EQ(count(svg, "<polygon"), 5U);            // one band, three squares and the legend
  EXPECT_LT(svg.find(">a<"), svg.find(">noise<"));  // the legend follows the curves' ends
  EXPECT_EQ(svg, draw(simple_lines()));
}

TEST(LineChart, AGapStaysAGap) {
  auto chart = simple_lines();
  chart.series.resize(1);
  chart.series[0].y = {3, kNone, 1};
  chart.series[0].low.clear();
  const auto svg = draw(chart);
  expect_well_formed(svg);
  EXPECT_EQ(count(svg, "<circle"), 3U);
  EXPECT_EQ(count(svg, "stroke=\"#0072B2\" stroke-width=\"2\"/>"), 2U);  // the curve and its sample in the legend
  EXPECT_TRUE(std::regex_search(svg, std::regex(R"(<path d="M[0-9. ]+M[0-9. ]+" fill="none")")));  // two ends, no line
}

TEST(Charts, DrawNothingAndNonsense) {
  expect_well_formed(draw(LineChart{}));
  expect_well_formed(draw(ScatterChart{}));
  expect_well_formed(draw(DotChart{}));
  auto chart = simple_lines();
  chart.title = "<script>alert(\"1\") & \x01\x7f</script>";
  chart.series[0].y = {0, -1, kInfinite};
  chart.series[1].y = {1e308, 1e-308, 5};
  const auto svg = draw(chart);
  expect_well_formed(svg);
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
  EXPECT_EQ(svg.find('\x01'), std::string::npos);
}

TEST(ScatterChart, PutsEqualValuesOnTheLine) {
  ScatterChart chart;
  chart.x = {"measured", true, false, {}};
  chart.y = {"predicted", true, false, {}};
  chart.panels = {{"one", "note", {{"C3", {1, 10}, {1, 10}, 0}, {"C5", {0, 5}, {2, 3}, 1}}},
                  {"two", "", {{"C3", {2}, {4}, 0}}}};
  const auto svg = draw(chart);
  expect_well_formed(svg);
  EXPECT_EQ(count(svg, "h0"), 4U);  // 0 has no place on a logarithmic axis
  EXPECT_EQ(count(svg, ">C3<"), 1U);
  const std::regex path(R"(<path d="M([0-9.]+) ([0-9.]+)h0M([0-9.]+) ([0-9.]+)h0")");
  std::smatch match;
  ASSERT_TRUE(std::regex_search(svg, match, path));
  const double right = std::stod(match[3]) - std::stod(match[1]), up = std::stod(match[2]) - std::stod(match[4]);
  EXPECT_NEAR(right, up, 0.21);  // one range on both axes
}

TEST(DotChart, ARowMayHaveALevelOfItsOwn) {
  DotChart chart;
  chart.row_labels = {"C3", "C5"};
  chart.row_level_label = "noise";
  chart.panels = {{"", {"", true, false, {}}, {{{0, 0.5, 0.4, 0.6}}, {{0, 2, 1, 3}}}, {}, {0.1, kNone}}};
  const auto svg = draw(chart);
  expect_well_formed(svg);
  EXPECT_THAT(svg, HasSubstr(">noise<"));
  EXPECT_EQ(count(svg, "stroke=\"#666666\" stroke-width=\"2\""), 2U);  // one row's, and its sample in the legend
  EXPECT_THAT(svg, HasSubstr(">0.1<"));                                // it widens the axis
}

TEST(DotChart, DrawsRangesAndLevels) {
  DotChart chart;
  chart.row_labels = {"C3", "C5"};
  chart.styles = {"MLP", "GCN"};
  chart.panels = {{"τ",
                   {"", false, false, {}},
                   {{{0, 0.5, 0.4, 0.6}, {1, 0.7, 0.7, 0.7}}, {{0, kNone, kNone, kNone}}},
                   {{"ceiling", 0.9}}}};
  const auto svg = draw(chart);
  expect_well_formed(svg);
  for (const char* text : {">C3<", ">C5<", ">MLP<", ">GCN<", ">ceiling<"}) EXPECT_THAT(svg, HasSubstr(text)) << text;
  EXPECT_EQ(count(svg, "<circle"), 2U);                  // one dot, one sample
  EXPECT_EQ(count(svg, "stroke-opacity=\"0.45\""), 1U);  // one range
}

}  // namespace
}  // namespace foretime::figures
