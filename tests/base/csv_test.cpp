#include "base/csv.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/golden.h"
#include "tests/support/message_of.h"

namespace foretime {
namespace {

std::string refusal_of(const std::string& text) {
  return testing::message_of<DataError>([&] { parse_csv(text, "t.csv"); });
}

TEST(Csv, FieldsAreQuotedWhereTheyMustBe) {
  EXPECT_EQ(csv_field("0.1"), "0.1");
  EXPECT_EQ(csv_field("[mean, max]"), "\"[mean, max]\"");
  EXPECT_EQ(csv_field("a\"b"), "\"a\"\"b\"");
  EXPECT_EQ(csv_field("a\nb"), "\"a\nb\"");
}

TEST(Csv, SpreadsheetsFindNoFormulas) {
  EXPECT_EQ(spreadsheet_field("=HYPERLINK(\"x\",A1)"), "\"'=HYPERLINK(\"\"x\"\",A1)\"");
  EXPECT_EQ(spreadsheet_field("@SUM(1)"), "'@SUM(1)");
  EXPECT_EQ(spreadsheet_field("+1+cmd|' /C calc'!A0"), "'+1+cmd|' /C calc'!A0");
  EXPECT_EQ(spreadsheet_field("-1-x"), "'-1-x");
  EXPECT_EQ(spreadsheet_field("\t=1"), "'\t=1");
  EXPECT_EQ(spreadsheet_field("-"), "'-");
  EXPECT_EQ(spreadsheet_field("a\x1b[31mb\a\r\nc\td"), "\"a[31mb\nc\td\"");
  for (const char* harmless : {"", "-1", "-1.5e-7", "-inf", "a=b", "1+1", "'=1"})
    EXPECT_EQ(spreadsheet_field(harmless), harmless);
}

TEST(Csv, BytesOfOtherEncodingsAreRefusedWithTheirLine) {
  EXPECT_MESSAGE(refusal_of("a,b\n1,2\n\xb7,3\n"), "t.csv:3");
  EXPECT_EQ(parse_csv("a\n\u00b7\n", "t.csv").rows[0][0], "\u00b7");
}

TEST(Csv, ReadsWhatItWrites) {
  std::mt19937 random(1);
  const std::string letters = "ab,\"\n\r 1";
  for (int round = 0; round < 300; ++round) {
    const size_t columns = 1 + random() % 4, rows = random() % 5;
    std::string text;
    std::vector<std::vector<std::string>> wanted;
    for (size_t r = 0; r <= rows; ++r) {
      std::vector<std::string> row;
      for (size_t c = 0; c < columns; ++c) {
        std::string field = "x";  // a line of one empty field would be no line
        for (size_t n = random() % 6; n > 0; --n) field += letters[random() % letters.size()];
        row.push_back(field);
        if (c > 0) text += ',';
        text += csv_field(field);
      }
      text += round % 2 == 0 ? "\n" : "\r\n";
      wanted.push_back(row);
    }
    const auto table = parse_csv(text, "t.csv");
    EXPECT_EQ(table.columns, wanted.front());
    EXPECT_EQ(table.rows, std::vector<std::vector<std::string>>(wanted.begin() + 1, wanted.end()));
  }
}

TEST(Csv, AnyBytesGiveATableOrAnError) {
  std::mt19937 random(2);
  const std::string letters = ",,\"\"\n\rab1";
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    for (size_t n = random() % 40; n > 0; --n) text += letters[random() % letters.size()];
    try {
      const auto table = parse_csv(text, "t.csv");
      for (const auto& row : table.rows) EXPECT_EQ(row.size(), table.columns.size());
    } catch (const DataError&) {
    }
  }
}

TEST(Csv, EmptyFieldsAndNumbers) {
  const auto table = parse_csv("a,b,c\n,1.5e-3,\n\ninf,nan,-2", "t.csv");
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_TRUE(std::isnan(csv_number(table, 0, 0)));
  EXPECT_EQ(csv_number(table, 0, table.column("b")), 1.5e-3);
  EXPECT_TRUE(std::isinf(csv_number(table, 1, 0)));
  EXPECT_TRUE(std::isnan(csv_number(table, 1, 1)));
  EXPECT_THROW(table.column("d"), DataError);
}

TEST(Csv, MessagesNameTheLine) {
  EXPECT_MESSAGE(refusal_of("a,b\n1,2\n3\n"), "t.csv:3");
  EXPECT_MESSAGE(refusal_of("a,b\n\"1\n\n2\",2\n\"3,4\n"), "t.csv:5");
  EXPECT_MESSAGE(refusal_of("\n"), "t.csv");
  const auto table = parse_csv("a\n1x\n", "t.csv");
  EXPECT_THROW(csv_number(table, 0, 0), DataError);
}

}  // namespace
}  // namespace foretime
