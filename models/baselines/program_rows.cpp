#include "models/baselines/program_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "base/index_range.h"
#include "data/files/npz_reader.h"

namespace foretime::models {
namespace {

using data::kAnySize;
using data::NpzReader;
using data::ShapeRule;

const ShapeRule kAnyList{{kAnySize}, "(any,)"};

void check_row_ptr(const NpzReader& file, const std::string& member, const std::vector<int64_t>& row_ptr,
                   int64_t rows) {
  const bool ascending = std::adjacent_find(row_ptr.begin(), row_ptr.end(), std::greater_equal<>()) == row_ptr.end();
  if (row_ptr.size() < 2 || row_ptr.front() != 0 || row_ptr.back() != rows || !ascending)
    throw DataError(
        "{}: the values do not ascend from 0 to the number of rows, {}; expected one or more rows a program",
        file.origin(member), rows);
}

void check_runtimes(const NpzReader& file, const std::string& member, const std::vector<double>& runtimes) {
  for (size_t p = 0; p < runtimes.size(); ++p)
    if (!std::isfinite(runtimes[p]) || runtimes[p] <= 0.0)
      throw DataError("{}: {} at program {}, expected finite seconds above 0", file.origin(member), runtimes[p], p);
}

/// Returns the workload of each program. Throws DataError for a number outside of 0 … limit - 1.
template <class Index>
std::vector<int32_t> read_workloads(const NpzReader& file, const std::string& member, int64_t programs, int64_t limit) {
  std::vector<int32_t> workloads;
  for (const Index index : file.read<Index>(member, {{programs}, "(programs,)"})) {
    if (index < 0 || index >= limit)
      throw DataError("{}: workload {}, expected 0 … {}", file.origin(member), index, limit - 1);
    workloads.push_back(index);
  }
  return workloads;
}

std::vector<std::string> read_ids(const NpzReader& file, int64_t programs) {
  const ShapeRule rule{{programs}, "(programs,)"};
  if (file.has("ids")) return file.read_text("ids", rule);
  std::vector<std::string> ids;
  if (!file.has("line")) return ids;
  for (const int64_t line : file.read<int64_t>("line", rule)) ids.push_back(fmt::format("{}", line));
  return ids;
}

void append_program(ProgramRows& rows, std::span<const float> features, int32_t workload, double runtime) {
  rows.features.insert(rows.features.end(), features.begin(), features.end());
  rows.row_ptr.push_back(std::ssize(rows.features) / rows.columns);
  rows.workload.push_back(workload);
  rows.runtimes.push_back(runtime);
}

}  // namespace

std::span<const float> ProgramRows::rows_of(int64_t program) const {
  const auto rows = entries_of(row_ptr, program);
  return std::span(features).subspan(rows.first() * columns, rows.size() * columns);
}

ProgramRows read_statement_rows(const std::filesystem::path& path) {
  const NpzReader file(path);
  const bool tenset = file.has("row_splits");
  const std::string features = tenset ? "features" : "X", ptr = tenset ? "row_splits" : "ptr";
  const std::string runtime = tenset ? "cost" : "y";
  const ShapeRule matrix{{kAnySize, kAnySize}, "(rows, columns)"};
  ProgramRows rows;
  rows.columns = file.size(features, matrix, 1);
  rows.features = file.read<float>(features, matrix);
  rows.row_ptr = file.read<int64_t>(ptr, kAnyList);
  if (rows.columns < 1) throw DataError("{}: rows without columns, expected features", file.origin(features));
  check_row_ptr(file, ptr, rows.row_ptr, std::ssize(rows.features) / rows.columns);
  rows.runtimes = file.read<double>(runtime, {{rows.programs()}, "(programs,)"});
  check_runtimes(file, runtime, rows.runtimes);
  if (tenset) {
    rows.workload_names = file.read_text("workload_keys", kAnyList);
    rows.workload = read_workloads<int32_t>(file, "workload_index", rows.programs(), std::ssize(rows.workload_names));
  } else {
    rows.workload = read_workloads<int64_t>(file, "task", rows.programs(), rows.programs());
    const int32_t last = *std::max_element(rows.workload.begin(), rows.workload.end());
    for (int32_t w = 0; w <= last; ++w) rows.workload_names.push_back(fmt::format("task {}", w));
  }
  rows.ids = read_ids(file, rows.programs());
  return rows;
}

ProgramRows read_loop_features(const std::filesystem::path& path) {
  const NpzReader file(path);
  const auto features = file.read<float>("features", kAnyList);
  const auto splits = file.read<int64_t>("row_splits", kAnyList);
  check_row_ptr(file, "row_splits", splits, features.size());
  ProgramRows rows;
  rows.ids = file.read_text("id", {{std::ssize(splits) - 1}, "(programs,)"});
  for (size_t p = 0; p < rows.ids.size(); ++p) rows.columns = std::max(rows.columns, entries_of(splits, p).size());
  for (size_t p = 0; p < rows.ids.size(); ++p) {
    const auto own = entries_of(splits, p);
    rows.features.insert(rows.features.end(), features.begin() + own.first(), features.begin() + own.last());
    rows.features.resize((p + 1) * rows.columns, 0.0f);
    rows.row_ptr.push_back(p + 1);
  }
  return rows;
}

ProgramRows select(const ProgramRows& rows, const std::vector<int64_t>& programs) {
  ProgramRows out;
  out.columns = rows.columns;
  out.workload_names = rows.workload_names;
  for (const int64_t p : programs) {
    const size_t at = p;
    append_program(out, rows.rows_of(p), rows.workload[at], rows.runtimes[at]);
    if (!rows.flops.empty()) out.flops.push_back(rows.flops[at]);
    if (!rows.ids.empty()) out.ids.push_back(rows.ids[at]);
  }
  return out;
}

std::vector<int64_t> programs_of(const ProgramRows& rows, const std::vector<bool>& chosen) {
  std::vector<int64_t> programs;
  for (int64_t p = 0; p < rows.programs(); ++p)
    if (chosen[rows.workload[p]]) programs.push_back(p);
  return programs;
}

ProgramRows aggregated(const ProgramRows& rows) {
  ProgramRows out;
  const size_t columns = rows.columns;
  out.columns = 3 * rows.columns + 1;
  out.workload_names = rows.workload_names;
  out.flops = rows.flops;
  out.ids = rows.ids;
  for (int64_t p = 0; p < rows.programs(); ++p) {
    const auto statements = rows.rows_of(p);
    const size_t count = statements.size() / columns;
    std::vector<float> row(out.columns, 0.0f);
    std::copy_n(statements.begin(), columns, row.begin() + rows.columns);
    for (size_t i = 0; i < statements.size(); ++i) {
      row[i % columns] += statements[i];
      row[columns + i % columns] = std::max(row[columns + i % columns], statements[i]);
    }
    for (size_t c = 0; c < columns; ++c) row[2 * columns + c] = row[c] / count;
    row.back() = count;
    append_program(out, row, rows.workload[p], rows.runtimes[p]);
  }
  return out;
}

std::vector<double> normalized_throughputs(const ProgramRows& rows) {
  std::vector<double> best(rows.workload_names.size(), std::numeric_limits<double>::infinity());
  std::vector<double> throughputs(rows.runtimes.size());
  for (size_t p = 0; p < throughputs.size(); ++p) {
    auto& workload = best[rows.workload[p]];
    workload = std::min(workload, rows.runtimes[p]);
  }
  for (size_t p = 0; p < throughputs.size(); ++p)
    throughputs[p] = std::isinf(rows.runtimes[p]) ? 0.0 : best[rows.workload[p]] / rows.runtimes[p];
  return throughputs;
}

}  // namespace foretime::models
