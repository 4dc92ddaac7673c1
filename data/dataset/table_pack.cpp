#include "data/dataset/table_pack.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/dataset/measured_table.h"
#include "data/files/packed.h"
#include "data/graphs/group.h"

namespace foretime::data {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostWords = 64, kMostGroupColumns = 4096;
constexpr double kLargestGap = 1e6;  // between run times of candidates that ran

/// Lists the marks of failed measurements written by pandas and Kernel Tuner; a number that is not finite is such a
/// mark, too.
constexpr const char* kFailed[] = {"",
                                   "#N/A",
                                   "<NA>",
                                   "N/A",
                                   "NA",
                                   "NULL",
                                   "None",
                                   "n/a",
                                   "null",
                                   "CompilationFailedConfig",
                                   "InvalidConfig",
                                   "RuntimeFailedConfig"};

/// A column of a table: a number, or one of some words.
struct TableColumn {
  std::string name;
  std::vector<std::string> words = {};  // sorted; empty: numbers
  size_t width() const { return words.empty() ? 1 : words.size(); }
};

struct TableColumns {
  std::vector<TableColumn> group, candidate;
};

/// Returns the type and words of a column's values.
TableColumn column_of(const MeasuredTable& table, size_t place) {
  TableColumn column{table.names[place]};
  std::set<std::string> words;
  for (const TableRow& row : table.rows) {
    const std::string& value = row.values[place];
    if (value.empty())
      throw DataError("{}: {}: found no value; leave the column out (--leave-out {})", row.place, column.name,
                      column.name);
    if (!table_number(value)) words.insert(value);
  }
  if (words.empty()) return column;
  for (const TableRow& row : table.rows) words.insert(row.values[place]);
  if (words.size() > kMostWords)
    throw DataError(
        "{}: found {} different words such as {}, expected numbers or at most {} words; leave it out (--leave-out {})",
        column.name, words.size(), *words.begin(), kMostWords, column.name);
  column.words.assign(words.begin(), words.end());
  return column;
}

Json to_json(const std::vector<TableColumn>& columns) {
  Json list = Json::array();
  for (const TableColumn& column : columns)
    list.push_back(column.words.empty() ? Json(column.name) : Json{{column.name, column.words}});
  return list;
}

std::vector<TableColumn> columns_from(const Json& list) {
  std::vector<TableColumn> columns;
  for (const Json& item : list) {
    if (item.is_string()) columns.push_back({item.get<std::string>()});
    else columns.push_back({item.begin().key(), item.begin().value().get<std::vector<std::string>>()});
  }
  return columns;
}

TableColumns parse_columns(const std::string& text) {
  try {
    const auto json = Json::parse(text);
    return {columns_from(json.at("group")), columns_from(json.at("candidate"))};
  } catch (const Json::exception&) {
    throw DataError("stored columns of a table: found {}, expected JSON with the lists group and candidate",
                    text.substr(0, 100));
  }
}

std::vector<std::string> names_of(const std::vector<TableColumn>& columns) {
  std::vector<std::string> names;
  for (const TableColumn& column : columns) {
    if (column.words.empty()) names.push_back(column.name);
    for (const std::string& word : column.words) names.push_back(column.name + "=" + word);
  }
  return names;
}

/// The first thing in which columns differ.
std::string difference_of(const TableColumns& found, const TableColumns& expected, const std::string& whose) {
  const auto part = [&](const std::vector<TableColumn>& ours, const std::vector<TableColumn>& theirs,
                        const std::string& what) -> std::string {
    const auto has = [](const std::vector<TableColumn>& columns, const std::string& name) {
      return std::ranges::find(columns, name, &TableColumn::name) != columns.end();
    };
    for (const TableColumn& column : theirs)
      if (!has(ours, column.name)) return fmt::format("no {}column {}, which {} has", what, column.name, whose);
    for (const TableColumn& column : ours)
      if (!has(theirs, column.name))
        return fmt::format("{}column {}, which {} does not have", what, column.name, whose);
    for (size_t i = 0; i < ours.size(); ++i) {
      if (ours[i].name != theirs[i].name)
        return fmt::format("{}columns in another order than {} has: {} in place {}, expected {}", what, whose,
                           ours[i].name, i + 1, theirs[i].name);
      if (ours[i].words != theirs[i].words)
        return fmt::format("{}column {} with the words [{}], {} has [{}]", what, ours[i].name,
                           fmt::join(ours[i].words, ", "), whose, fmt::join(theirs[i].words, ", "));
    }
    return "";
  };
  const auto text = part(found.group, expected.group, "group ");
  return text.empty() ? part(found.candidate, expected.candidate, "") : text;
}

TableColumns own_columns(const MeasuredTable& table, const TablePackRequest& request) {
  TableColumns columns;
  for (const std::string& name : request.group) {
    const auto place = table.find(name);
    if (!place)
      throw DataError("--group {}: no such column in {}: {}", name, request.in.front().string(),
                      fmt::join(table.names, ","));
    columns.group.push_back(column_of(table, *place));
  }
  for (size_t place = 0; place < table.names.size(); ++place) {
    const std::string& name = table.names[place];
    const bool other = name == request.runtime || std::ranges::count(request.group, name) > 0 ||
                       std::ranges::count(request.skipped_columns, name) > 0;
    if (!other) columns.candidate.push_back(column_of(table, place));
  }
  if (columns.candidate.empty())
    throw DataError("{}: found no column that describes candidates", request.in.front().string());
  if (const auto names = names_of(columns.candidate); std::ssize(names) > kTileFeatures)
    throw DataError(
        "{}: {} columns describe candidates ({}), expected at most {}: "
        "give the columns of the problem by --group, or leave some out (--leave-out)",
        request.in.front().string(), names.size(), fmt::join(names, ", "), kTileFeatures);
  if (names_of(columns.group).size() > kMostGroupColumns)
    throw DataError(
        "--group: found {} features (one for each word of a text column), expected at most {}; name fewer columns",
        names_of(columns.group).size(), kMostGroupColumns);
  return columns;
}

/// Returns the columns of `like`, which the table must have.
TableColumns same_columns(const MeasuredTable& table, const TablePackRequest& request) {
  auto columns = parse_columns(request.like);
  std::set<std::string> wanted = {request.runtime};
  wanted.insert(request.skipped_columns.begin(), request.skipped_columns.end());
  for (const auto* part : {&columns.group, &columns.candidate}) {
    for (const TableColumn& column : *part) {
      wanted.insert(column.name);
      if (!table.find(column.name))
        throw DataError("{}: no column {}, which --like has; found {}", request.in.front().string(), column.name,
                        fmt::join(table.names, ","));
    }
  }
  for (const std::string& name : table.names)
    if (!wanted.contains(name))
      throw DataError("{}: column {}, which --like does not have; leave it out (--leave-out {})",
                      request.in.front().string(), name, name);
  return columns;
}

void append_value(std::vector<float>& features, const TableColumn& column, const TableRow& row, size_t place) {
  const std::string& value = row.values[place];
  if (column.words.empty()) {
    const auto number = table_number(value);
    if (!number || !std::isfinite(*number))
      throw DataError("{}: {}: found '{}', expected a finite number", row.place, column.name, value);
    features.push_back(*number);
    return;
  }
  const auto found = std::ranges::find(column.words, value);
  if (found == column.words.end())
    throw DataError("{}: {}: found {}, expected one of {}", row.place, column.name, value,
                    fmt::join(column.words, ", "));
  for (const std::string& word : column.words) features.push_back(word == *found ? 1.0F : 0.0F);
}

/// Tells run times from marks of failures.
class RunTimes {
 public:
  RunTimes(const std::string& name, size_t place, const std::vector<std::string>& failed)
      : name_(name), place_(place), failed_(std::begin(kFailed), std::end(kFailed)) {
    for (const std::string& word : failed) {
      failed_.insert(word);
      if (const auto number = table_number(word)) failed_numbers_.insert(*number);
    }
  }

  /// Returns a row's run time; empty if the measurement failed.
  std::optional<double> of(const TableRow& row) const {
    const std::string& text = row.values[place_];
    const auto value = table_number(text);
    if (failed_.contains(text) || (value && (!std::isfinite(*value) || failed_numbers_.contains(*value))))
      return std::nullopt;
    if (!value || *value <= 0)
      throw DataError("{}: {}: found '{}', expected a run time above 0; if it marks failures, add --failed={}",
                      row.place, name_, text, text);
    return *value;
  }

  /// Throws DataError where the slowest are slower than all others by so much that they must be marks of failures.
  void check(const std::vector<TableRow>& rows) const {
    std::vector<std::pair<double, const TableRow*>> sorted;
    for (const TableRow& row : rows)
      if (const auto runtime = of(row)) sorted.emplace_back(*runtime, &row);
    std::ranges::stable_sort(sorted, {}, &std::pair<double, const TableRow*>::first);
    for (size_t i = 1; i < sorted.size(); ++i) {
      const auto& [slower, row] = sorted[i];
      if (slower > kLargestGap * sorted[i - 1].first)
        throw DataError(
            "{}: {}: found {}, which is more than a million times {}, the next faster one; "
            "if it marks failures, add --failed={}; otherwise pack such problems in separate tables",
            row->place, name_, row->values[place_], sorted[i - 1].first, row->values[place_]);
    }
  }

 private:
  const std::string& name_;
  size_t place_;
  std::set<std::string> failed_;
  std::set<double> failed_numbers_;
};

class TableGroups {
 public:
  TableGroups(const MeasuredTable& table, const TablePackRequest& request, const TableColumns& columns)
      : table_(table), request_(request), columns_(columns) {
    for (const auto* part : {&columns.group, &columns.candidate})
      for (const TableColumn& column : *part) places_[column.name] = table.find(column.name).value();
    if (const auto place = table.find(request.runtime)) {
      runtimes_.emplace(request.runtime, *place, request.failed);
      runtimes_->check(table.rows);
    }
  }

  bool labelled() const { return runtimes_.has_value(); }
  int64_t failed = 0;

  std::vector<Group> make() {
    std::vector<std::string> order;
    std::map<std::string, std::vector<size_t>> members;
    for (size_t r = 0; r < table_.rows.size(); ++r) {
      if (runtimes_ && !runtimes_->of(table_.rows[r])) {
        ++failed;
        continue;
      }
      auto name = name_of(table_.rows[r]);
      auto& rows = members[name];
      if (rows.empty()) order.push_back(name);
      rows.push_back(r);
    }
    std::vector<Group> groups;
    for (const std::string& name : order) groups.push_back(group_of(name, members[name]));
    return groups;
  }

 private:
  std::string name_of(const TableRow& row) const {
    if (columns_.group.empty()) return request_.in.front().stem().string();
    std::vector<std::string> parts;
    for (const TableColumn& column : columns_.group)
      parts.push_back(column.name + "=" + row.values[places_.at(column.name)]);
    return fmt::format("{}", fmt::join(parts, " "));
  }

  Group group_of(const std::string& name, const std::vector<size_t>& rows) const {
    Group group;
    group.name = name;
    group.kind = CandidateKind::tile;
    group.unit = RuntimeUnit::normalized;
    group.candidates = rows.size();
    std::vector<float> problem;
    for (const TableColumn& column : columns_.group)
      append_value(problem, column, table_.rows[rows.front()], places_.at(column.name));
    if (problem.empty()) problem.push_back(0.0F);
    group.graphs.feature_count = problem.size();
    group.graphs.node_type_count = 1;
    group.graphs.node_features = std::move(problem);
    group.graphs.node_types = std::vector<uint8_t>{0};
    group.graphs.set_edges({}, {});
    std::vector<float> features;
    std::vector<double> runtimes;
    for (const size_t r : rows) {
      const size_t begin = features.size();
      for (const TableColumn& column : columns_.candidate)
        append_value(features, column, table_.rows[r], places_.at(column.name));
      features.resize(begin + kTileFeatures, 0.0F);
      runtimes.push_back(runtimes_ ? *runtimes_->of(table_.rows[r]) : 0.0);
    }
    group.tile_features = std::move(features);
    group.runtimes = std::move(runtimes);
    return group;
  }

  const MeasuredTable& table_;
  const TablePackRequest& request_;
  const TableColumns& columns_;
  std::map<std::string, size_t> places_;
  std::optional<RunTimes> runtimes_;
};

std::string columns_of(const GroupHeader& header) {
  if (header.kind != CandidateKind::tile || header.member < 0) return "";
  return packed_note(header);
}

void check_columns_of(const GroupHeader& header, const std::string& expected, const std::string& whose) {
  const auto found = columns_of(header);
  if (found == expected) return;
  const auto origin = header.file.string();
  if (found.empty())
    throw DataError("{}: not a table (foretime data pack-table), expected one with the columns of {}: {}", origin,
                    whose, fmt::join(names_of(parse_columns(expected).candidate), ", "));
  if (expected.empty())
    throw DataError("{}: found a table of measurements, expected no table, as {} has no table's columns", origin,
                    whose);
  throw DataError("{}: {}", origin, difference_of(parse_columns(found), parse_columns(expected), whose));
}

}  // namespace

TablePackReport pack_table(const TablePackRequest& request) {
  MeasuredTable table;
  for (const auto& file : request.in) read_table(file, table);
  if (table.rows.empty()) throw DataError("{}: no row, expected one for each candidate", request.in.front().string());
  if (request.like.empty() && !table.find(request.runtime))
    throw DataError("--runtime {}: no such column in {}: {}", request.runtime, request.in.front().string(),
                    fmt::join(table.names, ","));
  for (const std::string& name : request.skipped_columns)
    if (!table.find(name))
      throw DataError("--leave-out {}: no such column in {}: {}", name, request.in.front().string(),
                      fmt::join(table.names, ","));
  const auto columns = request.like.empty() ? own_columns(table, request) : same_columns(table, request);
  TableGroups groups(table, request, columns);
  const Json note = {{"candidate", to_json(columns.candidate)}, {"group", to_json(columns.group)}};
  PackedWriter writer(request.out, note.dump());
  TablePackReport report{.labelled = groups.labelled(),
                         .skipped_index_column = table.skipped_index_column,
                         .group_columns = names_of(columns.group),
                         .candidate_columns = names_of(columns.candidate)};
  const auto all = groups.make();
  report.failed = groups.failed;
  if (all.empty()) throw DataError("{}: no row has a run time", request.in.front().string());
  for (const Group& group : all) {
    writer.add(group);
    ++report.groups;
    report.rows += group.candidates;
  }
  writer.finish();
  return report;
}

std::string columns_text(const std::vector<GroupHeader>& headers) {
  if (headers.empty()) return "";
  auto text = columns_of(headers.front());
  check_columns(headers, text, headers.front().file.string());
  return text;
}

void check_columns(const std::vector<GroupHeader>& headers, const std::string& expected, const std::string& whose) {
  for (const GroupHeader& header : headers) check_columns_of(header, expected, whose);
}

}  // namespace foretime::data
