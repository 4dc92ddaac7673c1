#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

/// Comma-separated values by RFC 4180: fields with commas, quotes or line ends are in double quotes.
namespace foretime {

/// The part of a message that says that a table is not UTF-8; the table's place precedes it.
inline constexpr const char* kNotUtf8 =
    "found bytes that are not UTF-8, expected UTF-8; `iconv -t UTF-8` converts files";

/// Returns a text as one field: in double quotes if it has a comma, a quote or a line end, otherwise unchanged.
std::string csv_field(const std::string& text);

/// Returns a text as csv_field does, made safe for spreadsheets and terminals. Control characters other than tabs and
/// line feeds are removed, and invalid UTF-8 becomes U+FFFD. A text that a spreadsheet would execute as a formula (it
/// begins with =, +, -, @, a tab or a line feed, and is not a number) gets a leading apostrophe.
std::string spreadsheet_field(const std::string& text);

/// Holds a table whose first line names the columns.
struct CsvTable {
  std::string origin;  // name of the file in messages
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  // [rows][columns] fields as text
  std::vector<int64_t> lines;                  // [rows] 1-based line of the file at which the row begins

  /// Returns the index of a column. Throws DataError, with the names of all columns, if there is none.
  size_t column(const std::string& name) const;
};

/// Parses a table with commas, and skips a byte order mark and empty lines. `origin` is the prefix of messages. Throws
/// DataError for a text without a line, and, naming the line, for bytes that are not UTF-8, a row with more or fewer
/// fields than columns, and an unclosed quote.
CsvTable parse_csv(const std::string& text, const std::string& origin);
/// Parses a file of at most 4 GiB. Throws as parse_csv does, DataError if the file cannot be read, and StorageError.
CsvTable read_csv(const std::filesystem::path& file);

/// Returns the fields of a line, one or more, separated by `delimiter`. Throws DataError "PLACE: …" for an open quote.
std::vector<std::string> csv_line(std::string_view line, char delimiter, const std::string& place);

/// Returns the field of row `row` and column `column`, both from 0, as a number, which may be "inf" or "nan"; NaN for
/// an empty field. Throws DataError, naming row and column, for any other text.
double csv_number(const CsvTable& table, size_t row, size_t column);

}  // namespace foretime
