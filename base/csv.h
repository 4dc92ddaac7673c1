#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

/// Comma-separated values by RFC 4180: fields with commas, quotes or line ends are in double quotes.
namespace foretime {

/// The text of messages about a table in another encoding.
inline constexpr const char* kNotUtf8 =
    "found bytes that are not UTF-8, expected UTF-8; `iconv -t UTF-8` converts files";

/// Returns a text as one field.
std::string csv_field(const std::string& text);

/// Returns a text as one field of a table for spreadsheets. A text that a spreadsheet would execute as a formula (it
/// begins with =, +, -, @, a tab or a line end, and is not a number) gets a leading apostrophe.
std::string spreadsheet_field(const std::string& text);

/// Holds a table whose first line names the columns.
struct CsvTable {
  std::string origin;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  // each as long as columns
  std::vector<int64_t> lines;                  // line of the file at which each row begins

  /// Returns the index of a column. Throws DataError, with the names of all columns, if there is none.
  size_t column(const std::string& name) const;
};

/// Parses a table. Throws DataError, with the line, for an empty text, bytes that are not UTF-8, a row with more or
/// fewer fields than columns, and an unclosed quote.
CsvTable parse_csv(const std::string& text, const std::string& origin);
/// Reads a table of at most 4 GiB. Throws DataError, also if the file cannot be read.
CsvTable read_csv(const std::filesystem::path& file);

/// Returns the fields of one line of a table. Throws DataError, naming `place`, for an unclosed quote.
std::vector<std::string> csv_line(std::string_view line, char delimiter, const std::string& place);

/// Returns a field as a number, also inf and nan; NaN if it is empty. Throws DataError naming `row` and column.
double csv_number(const CsvTable& table, size_t row, size_t column);

}  // namespace foretime
