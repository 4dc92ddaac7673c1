#include "data/frontends/ansor/dag/expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/message_of.h"

namespace foretime::data {
namespace {

using ::testing::HasSubstr;

std::string round_trip(const std::string& text) {
  ExpressionTree tree;
  return to_text(tree, parse_expression(text, tree));
}

TEST(Expression, PrintsWhatItRead) {
  for (const char* text : {"i",
                           "-3",
                           "((yy*4) + ry)",
                           "(p0[i0, k]*p1[i1, k])",
                           "floordiv(p, 16)",
                           "((floormod(floordiv(p, 4), 4)*4) + eps)",
                           "max(conv2d_nhwc[i0, (i1 - 1)], 0f)",
                           "3.40282e+38f",
                           "-1e-05f",
                           "select(((floormod(i, 6) == 5) && (floormod(j, 6) == 4)), 1f, -0.5f)",
                           "float32(x)",
                           "(int64)5",
                           "(bool)1",
                           "tir.if_then_else((!(i < 3) || (i >= 14)), a.local[i.c], 0f)",
                           "(a % 4)",
                           "(a/b)",
                           "(a != b)",
                           "min(a, b)",
                           "tir.call_extern(\"exp\", x)",
                           "f()",
                           "s[]"})
    EXPECT_EQ(round_trip(text), text);
}

TEST(Expression, KnowsPrecedence) {
  EXPECT_EQ(round_trip("a+b*c-d"), "((a + (b*c)) - d)");
  EXPECT_EQ(round_trip("a<b&&c||d"), "(((a < b) && c) || d)");
  EXPECT_EQ(round_trip("-(a)"), "(0 - a)");
}

TEST(Expression, SaysWhereItStopped) {
  const auto message = [](const std::string& text) {
    return foretime::testing::message_of<DataError>([&] { round_trip(text); });
  };
  EXPECT_THAT(message("(a + "), HasSubstr("at character 5: the end, expected a value"));
  EXPECT_THAT(message("(a + b"), HasSubstr("expected ')'"));
  EXPECT_THAT(message("a b"), HasSubstr("at character 2: 'b', expected the end"));
  EXPECT_THAT(message("f(a,)"), HasSubstr("expected a value"));
  EXPECT_THAT(message("99999999999999999999"), HasSubstr("an integer of 64 bits"));
  EXPECT_THAT(message("\"open"), HasSubstr("a closing quote"));
  EXPECT_THAT(message(std::string(100000, '(')), HasSubstr("at most 400 nested parentheses"));
  EXPECT_THAT(message(std::string(100000, '-')), HasSubstr("nested"));
  EXPECT_THAT(message(std::string(100000, '!')), HasSubstr("nested"));
  std::string chain = "a";
  for (int i = 0; i < 100000; ++i) chain += "+a";
  EXPECT_THAT(message(chain), HasSubstr("a shorter chain of operators"));
}

}  // namespace
}  // namespace foretime::data
