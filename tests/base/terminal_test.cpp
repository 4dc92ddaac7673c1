#include "base/terminal.h"

#include <gtest/gtest.h>

#include "base/table.h"

namespace foretime {
namespace {

TEST(CutToWidth, CountsCharactersAndMarksWhatIsMissing) {
  EXPECT_EQ(cut_to_width("Kendall τ", 9), "Kendall τ");
  EXPECT_EQ(cut_to_width("Kendall τ", 8), "Kendall…");
  EXPECT_EQ(cut_to_width("ττττ", 3), "ττ…");
  EXPECT_EQ(cut_to_width("abc", 1), "…");
  EXPECT_EQ(cut_to_width("abc", 0), "");
  EXPECT_EQ(text_width("τ…a"), 3U);
}

TEST(Folded, GoesOnBelowTheValue) {
  EXPECT_EQ(folded("name   a value of words\nstate  ok\n", 16), "name   a value\n       of words\nstate  ok\n");
  EXPECT_EQ(folded("path   abcdefghijklmnop", 14), "path   abcdefg\n       hijklmn\n       op\n");
  EXPECT_EQ(folded("ττττττ", 4), "ττττ\nττ\n");
  EXPECT_EQ(folded("\nshort\n", 10), "\nshort\n");
  EXPECT_EQ(folded("  name  a value of\n", 16), "  name  a value\n        of\n");
  EXPECT_EQ(folded("   -> some words\n", 12), "   -> some\n   words\n");
  EXPECT_EQ(folded("as wide as it comes", 0), "as wide as it comes");
  for (size_t width = 20; width < 60; ++width) {
    for (const char* text : {"metric    holdout/mae (minimize): 0.0031, best 0.0029 of all that ran so far", "x  y"}) {
      std::string words;
      for (const char c : folded(text, width)) words += c == '\n' || c == ' ' ? "" : std::string(1, c);
      std::string expected;
      for (const char c : std::string(text)) expected += c == ' ' ? "" : std::string(1, c);
      EXPECT_EQ(words, expected) << width;
    }
  }
}

TEST(FormatTable, ContinuesInFurtherBlocksBehindTheFirstColumn) {
  const std::vector<std::vector<std::string>> rows = {{"rank", "loss", "rate"}, {"1", "0.5", "a long value"}};
  EXPECT_EQ(format_table(rows, 0),
            "  rank  loss          rate\n  ----  ----  ------------\n  1      0.5  a long value\n");
  EXPECT_EQ(format_table(rows, 26), format_table(rows, 0));
  EXPECT_EQ(
      format_table(rows, 25),
      "  rank  loss\n  ----  ----\n  1      0.5\n\n  rank          rate\n  ----  ------------\n  1     a long value\n");
  EXPECT_EQ(format_table(rows, 16),
            "  rank  loss\n  ----  ----\n  1      0.5\n\n  rank      rate\n  ----  --------\n  1     a long …\n");
}

}  // namespace
}  // namespace foretime
