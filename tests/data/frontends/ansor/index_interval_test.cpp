/// Interval arithmetic on indices, against values worked out by hand and against all values that there are.
#include "data/frontends/ansor/replay/index_interval.h"

#include <array>
#include <functional>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "base/error.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"

namespace foretime::data {
namespace {

using ::testing::HasSubstr;

constexpr std::array<AffineBounds, 2> kAxes = {{{2, 5}, {-3, 4}}};  // x and y

class Indices : public ::testing::Test {
 protected:
  int32_t parsed(const std::string& text) {
    const int32_t root = parse_expression(text, tree_);
    for (size_t i = 0; i < tree_.size(); ++i) {
      auto& node = tree_.node(static_cast<int32_t>(i));
      if (node.kind == ExpressionKind::variable) node.target = tree_.name(static_cast<int32_t>(i)) == "x" ? 0 : 1;
    }
    return root;
  }
  IndexInterval interval(const std::string& text) {
    std::vector<IndexInterval> axes;
    for (const auto& axis : kAxes) axes.push_back({Affine::of(axis.low), Affine::of(axis.high)});
    return index_interval(tree_, parsed(text), axes, pool_);
  }
  /// `low high`, with `range` behind it where it is one; `everything`.
  std::string said(const std::string& text) {
    const auto found = interval(text);
    if (found.everything) return "everything";
    EXPECT_TRUE(found.low.constant() && found.high.constant()) << text;
    return fmt::format("{} {}{}", found.low.base, found.high.base, found.range ? " range" : "");
  }
  int64_t value(const std::string& text, int64_t x, int64_t y) {
    const std::vector<Affine> axes = {pool_.variable(0, kAxes[0]), pool_.variable(1, kAxes[1])};
    return pool_.evaluate(index_value(tree_, parsed(text), axes, pool_), [&](int32_t v) { return v == 0 ? x : y; });
  }

  ExpressionTree tree_;
  AffinePool pool_;
};

TEST_F(Indices, HaveTheIntervalsWorkedOutByHand) {
  EXPECT_EQ(said("7"), "7 7");
  EXPECT_EQ(said("x"), "2 5");
  EXPECT_EQ(said("(x + y)"), "-1 9");
  EXPECT_EQ(said("(x - y)"), "-2 8");
  EXPECT_EQ(said("(x*3)"), "6 15");
  EXPECT_EQ(said("(3*x)"), "6 15");
  EXPECT_EQ(said("(x*-2)"), "-10 -4");
  EXPECT_EQ(said("(y*0)"), "0 0");
  EXPECT_EQ(said("(2*3)"), "6 6");
  EXPECT_EQ(said("(x*y)"), "everything");
  EXPECT_EQ(said("floordiv(y, 2)"), "-2 2");
  EXPECT_EQ(said("(y/2)"), "-1 2");
  EXPECT_EQ(said("(x/-2)"), "-2 -1");
  EXPECT_EQ(said("floordiv(7, 2)"), "3 3");
  EXPECT_EQ(said("floordiv(7, x)"), "everything");
  EXPECT_EQ(said("floormod(x, 8)"), "2 5 range");
  EXPECT_EQ(said("floormod((x + 8), 8)"), "2 5 range");
  EXPECT_EQ(said("floormod(y, 4)"), "0 3");
  EXPECT_EQ(said("floormod(13, 5)"), "3 3");
  EXPECT_EQ(said("floormod(y, -4)"), "-3 3");
  EXPECT_EQ(said("floormod(f(x), 4)"), "0 3");
  EXPECT_EQ(said("floormod(4, x)"), "everything");
  EXPECT_EQ(said("(floormod(x, 8) + 1)"), "3 6 range");
  EXPECT_EQ(said("min(x, y)"), "-3 4");
  EXPECT_EQ(said("max(x, y)"), "2 5");
  EXPECT_EQ(said("select((x < 3), x, y)"), "-3 5");
  EXPECT_EQ(said("select((x < 3), x, f(y))"), "everything");
  EXPECT_EQ(said("int64(y)"), "-3 4");
  EXPECT_EQ(said("(f(x) + 1)"), "everything");
  for (const char* condition :
       {"(x < y)", "(x <= y)", "(x > y)", "(x >= y)", "(x == y)", "(x != y)", "((x < y) && (x < 3))"})
    EXPECT_EQ(said(condition), "0 1") << condition;
}

/// TVM writes x mod c as x − c·floor(x / c): what is subtracted goes along with sums, differences and factors.
TEST_F(Indices, RemainderOfARangeSaysWhatWasSubtracted) {
  const auto taken = [&](const std::string& text) { return interval(text).subtracted.base; };
  EXPECT_EQ(taken("x"), 0);
  EXPECT_EQ(taken("floormod((x + 16), 8)"), 16);
  EXPECT_EQ(taken("floormod((x + 8), 8)"), 8);
  // A number that does not depend on loops is part of the sum's bound, as TVM has it.
  EXPECT_EQ(taken("(floormod((x + 16), 8) + 1)"), 0);
}

TEST_F(Indices, DivisionsByZeroAreErrors) {
  EXPECT_THAT(foretime::testing::message_of<DataError>([&] { interval("floordiv(x, 0)"); }), HasSubstr("divided by 0"));
  EXPECT_MESSAGE(foretime::testing::message_of<DataError>([&] { interval("(x/0)"); }));
  EXPECT_THAT(foretime::testing::message_of<DataError>([&] { interval("floormod(x, 0)"); }), HasSubstr("modulo 0"));
}

TEST_F(Indices, HaveTheValuesOfPlainArithmeticInsideTheirIntervals) {
  using Plain = std::function<int64_t(int64_t, int64_t)>;
  const auto floor = [](int64_t a, int64_t b) { return floor_quotient(a, b); };
  const std::vector<std::pair<const char*, Plain>> all = {
      {"(x + (y*3))", [](int64_t x, int64_t y) { return x + 3 * y; }},
      {"(x - int64(y))", [](int64_t x, int64_t y) { return x - y; }},
      {"floordiv((y + 1), 3)", [&](int64_t, int64_t y) { return floor(y + 1, 3); }},
      {"((y - x)/3)", [](int64_t x, int64_t y) { return (y - x) / 3; }},
      {"floormod((y + x), 3)", [](int64_t x, int64_t y) { return floor_remainder(x + y, 3); }},
      {"min((x*2), (y + 7))", [](int64_t x, int64_t y) { return std::min(2 * x, y + 7); }},
      {"max((x*2), (y + 7))", [](int64_t x, int64_t y) { return std::max(2 * x, y + 7); }},
      {"(x < (y + 2))", [](int64_t x, int64_t y) { return x < y + 2; }},
      {"(x <= (y + 2))", [](int64_t x, int64_t y) { return x <= y + 2; }},
      {"(x > (y + 2))", [](int64_t x, int64_t y) { return x > y + 2; }},
      {"(x >= (y + 2))", [](int64_t x, int64_t y) { return x >= y + 2; }},
      {"(x == y)", [](int64_t x, int64_t y) { return x == y; }},
      {"(x != y)", [](int64_t x, int64_t y) { return x != y; }},
      {"((x < 4) && (y < 1))", [](int64_t x, int64_t y) { return x < 4 && y < 1; }},
      {"((x < 4) || (y < 1))", [](int64_t x, int64_t y) { return x < 4 || y < 1; }},
      {"!(x < 4)", [](int64_t x, int64_t) { return x >= 4; }},
      {"select((x < 4), (y*2), (x + 1))", [](int64_t x, int64_t y) { return x < 4 ? 2 * y : x + 1; }}};
  for (const auto& [text, plain] : all) {
    const auto found = interval(text);
    for (int64_t x = kAxes[0].low; x <= kAxes[0].high; ++x) {
      for (int64_t y = kAxes[1].low; y <= kAxes[1].high; ++y) {
        EXPECT_EQ(value(text, x, y), plain(x, y)) << text << " at " << x << ", " << y;
        EXPECT_LE(found.low.base, plain(x, y)) << text;
        EXPECT_GE(found.high.base, plain(x, y)) << text;
      }
    }
  }
  EXPECT_THROW(value("f(x)", 2, 0), DataError);
}

}  // namespace
}  // namespace foretime::data
