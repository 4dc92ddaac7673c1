#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

/// Comma-separated values as RFC 4180 has them: fields with commas, quotes or line ends stand in double quotes.
namespace foretime {

/// What messages say of a table in another encoding.
inline constexpr const char* kNotUtf8 =
    "found bytes that are not UTF-8, expected UTF-8; `iconv -t UTF-8` converts files";

/// Text as one field.
std::string csv_field(const std::string& text);

/// Text as one field of a table that people open in spreadsheets. A text that a spreadsheet would execute as a formula
/// (it begins with =, +, -, @, a tab or a line end, and is not a number) gets a leading apostrophe.
std::string spreadsheet_field(const std::string& text);

/// A table whose first line names the columns.
struct CsvTable {
  std::string origin;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  // each as long as columns
  std::vector<int64_t> lines;                  // of the file, where each row begins

  /// Position of a column. Throws DataError, naming those that are there.
  size_t column(const std::string& name) const;
};

/// Throws DataError, with the line, for an empty text, bytes that are not UTF-8, a row with more or fewer fields than
/// columns, and a quote without its partner.
CsvTable parse_csv(const std::string& text, const std::string& origin);
/// Of at most 4 GiB. Throws DataError where it cannot be read, too.
CsvTable read_csv(const std::filesystem::path& file);

/// The whole field as a number, inf and nan included; NaN for an empty one. Throws DataError naming `row` and column.
double csv_number(const CsvTable& table, size_t row, size_t column);

}  // namespace foretime
