#include "base/csv.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <simdjson.h>

#include "base/error.h"
#include "base/numbers.h"
#include "base/read_input.h"
#include "base/text.h"

namespace foretime {
namespace {

constexpr uintmax_t kMostBytes = uintmax_t{4} << 30;

/// Takes a text apart, one record at a time.
class CsvParser {
 public:
  CsvParser(const std::string& text, const std::string& origin) : text_(text), origin_(origin) {
    if (text.starts_with("\xef\xbb\xbf")) at_ = 3;  // a byte order mark
  }

  bool next(std::vector<std::string>& fields) {
    fields.clear();
    while (at_ < text_.size() && (text_[at_] == '\n' || text_[at_] == '\r')) skip_line_end();
    if (at_ == text_.size()) return false;
    first_line_ = line_;
    for (;;) {
      fields.push_back(at_ < text_.size() && text_[at_] == '"' ? quoted() : plain());
      if (at_ == text_.size() || text_[at_] != ',') break;
      if (++at_ == text_.size()) {
        fields.emplace_back();
        break;
      }
    }
    return true;
  }

  int64_t line() const { return first_line_; }

 private:
  void skip_line_end() {
    if (text_[at_] == '\n') ++line_;
    ++at_;
  }

  std::string plain() {
    const size_t end = std::min(text_.find_first_of(",\r\n", at_), text_.size());
    std::string field = text_.substr(at_, end - at_);
    at_ = end;
    return field;
  }

  std::string quoted() {
    std::string field;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\n') ++line_;
      if (text_[at_] != '"') {
        field += text_[at_];
      } else if (at_ + 1 < text_.size() && text_[at_ + 1] == '"') {
        field += text_[++at_];
      } else {
        ++at_;
        return field + plain();
      }
    }
    throw DataError("{}:{}: found a quote that is not closed", origin_, first_line_);
  }

  const std::string& text_;
  const std::string& origin_;
  size_t at_ = 0;
  int64_t line_ = 1, first_line_ = 1;
};

/// Names the line of the first character that is not UTF-8.
void check_utf8(const std::string& text, const std::string& origin) {
  if (simdjson::validate_utf8(text)) return;
  int64_t line = 1;
  for (size_t begin = 0; begin < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (!simdjson::validate_utf8(text.data() + begin, end - begin)) break;
    begin = end + 1;
  }
  throw DataError("{}:{}: {}", origin, line, kNotUtf8);
}

}  // namespace

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

/// Leaves out control characters but tabs and line ends: a terminal would obey them.
static std::string without_controls(const std::string& text) {
  std::string clean;
  for (size_t begin = 0; begin < text.size(); ++begin) {
    const auto end = std::min(text.find_first_of("\t\n", begin), text.size());
    clean += printable_utf8(text.substr(begin, end - begin)) + text.substr(end, 1);
    begin = end;
  }
  return clean;
}

std::string spreadsheet_field(const std::string& found) {
  const auto text = without_controls(found);
  if (text.empty() || std::string_view("=+-@\t\r\n").find(text.front()) == std::string_view::npos)
    return csv_field(text);
  return csv_field(parse_number<double>(text) ? text : "'" + text);
}

size_t CsvTable::column(const std::string& name) const {
  const auto found = std::ranges::find(columns, name);
  if (found == columns.end()) throw DataError("{}: no column {}, found {}", origin, name, fmt::join(columns, ", "));
  return found - columns.begin();
}

CsvTable parse_csv(const std::string& text, const std::string& origin) {
  CsvTable table{origin, {}, {}, {}};
  check_utf8(text, origin);
  CsvParser parser(text, origin);
  if (!parser.next(table.columns)) throw DataError("{}: empty, expected a line of column names", origin);
  std::vector<std::string> row;
  while (parser.next(row)) {
    if (row.size() != table.columns.size())
      throw DataError("{}:{}: {} fields, expected {} ({})", origin, parser.line(), row.size(), table.columns.size(),
                      fmt::join(table.columns, ", "));
    table.rows.push_back(std::move(row));
    table.lines.push_back(parser.line());
  }
  return table;
}

CsvTable read_csv(const std::filesystem::path& file) { return parse_csv(read_input(file, kMostBytes), file.string()); }

std::vector<std::string> csv_line(std::string_view line, char delimiter, const std::string& place) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"') fields.back() += line[++i];
    else if (c == '"') quoted = !quoted;
    else if (c == delimiter && !quoted) fields.emplace_back();
    else fields.back() += c;
  }
  if (quoted) throw DataError("{}: found an open quote; a value may not hold the end of a line", place);
  return fields;
}

double csv_number(const CsvTable& table, size_t row, size_t column) {
  const auto& text = table.rows[row][column];
  if (text.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto value = parse_number<double>(text);
  if (!value)
    throw DataError("{}: row {}: {}: found '{}', expected a number", table.origin, row + 1, table.columns[column],
                    text.substr(0, 40));
  return *value;
}

}  // namespace foretime
