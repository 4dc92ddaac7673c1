#include "data/dataset/measured_table.h"

#include <cmath>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <simdjson.h>

#include "base/csv.h"
#include "base/error.h"
#include "base/numbers.h"
#include "base/text.h"
#include "data/files/file_form.h"
#include "data/files/line_source.h"

namespace foretime::data {

std::optional<double> table_number(const std::string& text) {
  for (const char* word : {"true", "True", "TRUE"})
    if (text == word) return 1.0;
  for (const char* word : {"false", "False", "FALSE"})
    if (text == word) return 0.0;
  return parse_number<double>(without_plus(text));
}

namespace {

/// The values of a line, without spaces around them.
std::vector<std::string> values_of(std::string_view line, char delimiter, const std::string& place) {
  auto values = csv_line(line, delimiter, place);
  for (auto& value : values) value = trimmed(value);
  return values;
}

/// Throws DataError unless these are names.
void check_names(const std::vector<std::string>& names, const std::string& place) {
  if (std::ranges::all_of(names, [](const auto& name) { return table_number(name).has_value(); }))
    throw DataError("{}: found numbers ({}), expected a line of the columns' names first: no header?", place,
                    fmt::join(names, ","));
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty() && i > 0) throw DataError("{}: found no name of column {}", place, i + 1);
    if (std::ranges::count(names, names[i]) > 1) throw DataError("{}: found the column {} twice", place, names[i]);
  }
}

/// 0,25 of a table whose columns are separated by semicolons.
bool has_decimal_comma(std::string value) {
  const auto comma = value.find(',');
  if (comma == std::string::npos) return false;
  value[comma] = '.';
  return table_number(value).has_value();
}

/// Takes away a first column without a name that counts rows, as pandas writes it.
void leave_index_out(std::vector<std::string>& names, std::span<TableRow> rows, const std::string& file) {
  double last = -1;
  for (TableRow& row : rows) {
    const auto number = table_number(row.values.front());
    if (!number || *number <= last || *number != std::floor(*number))
      throw DataError("{}: found '{}' in the first column, which has no name, expected 0, 1, 2, … there, or its name",
                      row.place, row.values.front());
    last = *number;
    row.values.erase(row.values.begin());
  }
  names.erase(names.begin());
  if (names.empty()) throw DataError("{}: no column with a name", file);
}

}  // namespace

void read_table(const std::filesystem::path& file, MeasuredTable& table) {
  expect_form(file, {FileForm::table}, "a table (CSV)");
  LineSource lines(file);
  std::vector<std::string> names;
  const size_t first = table.rows.size();
  char delimiter = ',';
  while (const auto line = lines.next()) {
    const auto place = fmt::format("{}:{}", file.string(), lines.line_number());
    if (line->too_long) throw DataError("{}: found a line of over 16 MiB, expected a table's row", place);
    if (!simdjson::validate_utf8(line->text)) throw DataError("{}: {}", place, kNotUtf8);
    if (line->text.find_first_not_of(" \t") == std::string_view::npos) continue;
    if (names.empty()) delimiter = delimiter_of(line->text);
    auto values = values_of(line->text, delimiter, place);
    if (names.empty()) {
      check_names(values, place);
      names = std::move(values);
      continue;
    }
    if (values.size() != names.size())
      throw DataError("{}: {} values, expected {}: {}", place, values.size(), names.size(), fmt::join(names, ","));
    if (const auto found = std::ranges::find_if(values, has_decimal_comma); delimiter == ';' && found != values.end())
      throw DataError("{}: found '{}' between semicolons, expected numbers with a decimal point", place, *found);
    table.rows.push_back({std::move(values), place});
  }
  if (names.empty())
    throw DataError("{}: is empty, expected a line of names and a line for each candidate", file.string());
  if (names.front().empty()) {
    leave_index_out(names, std::span(table.rows).subspan(first), file.string());
    table.skipped_index_column = true;
  }
  if (table.names.empty()) table.names = names;
  if (table.names != names)
    throw DataError("{}: columns {}, expected {} as in the first file", file.string(), fmt::join(names, ","),
                    fmt::join(table.names, ","));
}

}  // namespace foretime::data
