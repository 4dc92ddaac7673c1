#pragma once

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

/// Reads tables of measurements as pandas, spreadsheets and tuners write them: CSV with a line of names.
namespace foretime::data {

/// A row of a table.
struct TableRow {
  std::vector<std::string> values;  // [columns] text without spaces around it
  std::string place;                // FILE:LINE, for messages
};

/// The rows of one or several CSV files with equal columns.
struct MeasuredTable {
  std::vector<std::string> names;  // [columns]
  std::vector<TableRow> rows;
  bool skipped_index_column = false;  // a first column without a name, which numbered the rows, was left out

  /// Returns the index of a column; nullopt if there is none.
  std::optional<size_t> find(const std::string& name) const {
    const auto found = std::ranges::find(names, name);
    return found == names.end() ? std::nullopt : std::optional<size_t>(found - names.begin());
  }
};

/// Returns the number in a cell, also inf and nan, with or without a sign; 1 for true, True and TRUE, 0 for false,
/// False and FALSE. Returns nullopt for other text.
std::optional<double> table_number(const std::string& text);

/// Appends the rows of a CSV file, separated by commas, semicolons or tabs; blank lines, and a first column without a
/// name that numbers the rows, are left out. Throws DataError, with the file and where possible the line, for
/// another kind of file, an empty file, text that is not UTF-8, lines above 16 MiB, rows of another length, missing or
/// repeated names, decimal commas, and other columns than those in `table`.
void read_table(const std::filesystem::path& file, MeasuredTable& table);

}  // namespace foretime::data
