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
  std::vector<std::string> values;
  std::string place;  // file:line
};

/// The rows of one or several CSV files with equal columns.
struct MeasuredTable {
  std::vector<std::string> names;
  std::vector<TableRow> rows;
  bool skipped_index_column = false;  // a first column without a name numbered the rows

  /// Returns the place of a column; empty if there is none.
  std::optional<size_t> find(const std::string& name) const {
    const auto found = std::ranges::find(names, name);
    return found == names.end() ? std::nullopt : std::optional<size_t>(found - names.begin());
  }
};

/// Returns the number in a cell; true and false are 1 and 0. Empty for other text.
std::optional<double> table_number(const std::string& text);

/// Appends the rows of a CSV file. Throws DataError with file and line for rows of another length, missing or repeated
/// names, decimal commas, and columns other than those of the rows before.
void read_table(const std::filesystem::path& file, MeasuredTable& table);

}  // namespace foretime::data
