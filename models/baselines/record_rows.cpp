#include "models/baselines/record_rows.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/read_input.h"
#include "data/frontends/ansor/dag/compute_dag.h"
#include "data/frontends/ansor/dag/dag_table.h"
#include "data/frontends/ansor/features/store_features.h"
#include "data/frontends/ansor/replay/replay.h"

namespace foretime::models {
namespace {

RecordLines read_lines(const nlohmann::json& root, const std::filesystem::path& file, const char* member) {
  const auto found = root.is_object() ? root.find(member) : root.end();
  if (found == root.end() || !found->is_object())
    throw DataError("{}: {}: expected lists of lines by workload key", file.string(), member);
  RecordLines lines;
  for (const auto& [key, list] : found->items()) {
    const bool numbers = list.is_array() && std::all_of(list.begin(), list.end(), [](const nlohmann::json& line) {
                           return line.is_number_integer() && line.get<int64_t>() >= 0;
                         });
    if (!numbers) throw DataError("{}: {}: {}: expected a list of 0-based lines", file.string(), member, key);
    for (const auto& line : list) lines.insert(line.get<int64_t>());
  }
  return lines;
}

/// A sample of the lines of each workload; `seed` and the workload decide about it.
RecordLines draw_lines(const std::filesystem::path& records, const RecordLines& lines, int64_t per_workload,
                       uint64_t seed) {
  std::map<std::string, std::vector<int64_t>> by_workload;
  data::RecordReader reader(records);
  data::TuningRecord record;
  while (reader.next(record)) {
    if (lines.empty() || lines.contains(record.line - 1)) by_workload[record.workload_key].push_back(record.line - 1);
  }
  RecordLines drawn;
  uint64_t number = 0;
  for (auto& [key, all] : by_workload) {
    std::mt19937_64 random(seed + 0x9e3779b97f4a7c15ULL * ++number);
    const size_t count = std::min(all.size(), static_cast<size_t>(per_workload));
    for (size_t i = 0; i < count; ++i) {
      std::swap(all[i], all[i + random() % (all.size() - i)]);
      drawn.insert(all[i]);
    }
  }
  return drawn;
}

/// Programs as they come from a file, to be put into order.
struct Gathered {
  struct Program {
    int64_t line = 0, first = 0, count = 0;  // rows
    int32_t workload = 0;
    double seconds = 0.0;
  };
  std::vector<float> features;
  std::vector<Program> programs;
  std::vector<std::string> workloads;
};

void gather(const std::filesystem::path& records, const std::filesystem::path& dags, const RecordLines& lines,
            Gathered& out, RecordRows& report) {
  const data::DagTable table(dags);
  data::RecordShare share;  // others are not even parsed
  if (!lines.empty()) share.lines = data::line_set({lines.begin(), lines.end()}, records.string());
  data::RecordReader reader(records, share);
  data::TuningRecord record;
  data::Replayer replayer;
  data::LoopNest nest;
  data::StoreFeatures features;
  std::map<std::string, std::pair<int32_t, std::shared_ptr<const data::ComputeDag>>> known;
  int64_t rows = 0, wanted = 0;
  // Those that are asked for by line may have failed: their throughput is 0, as TVM has it.
  while (lines.empty() ? reader.next(record) : reader.next_with_failed(record)) {
    ++wanted;
    const auto [at, fresh] = known.try_emplace(record.workload_key);
    if (fresh) {
      at->second = {static_cast<int32_t>(out.workloads.size()), table.find(record.workload_key)};
      out.workloads.push_back(record.workload_key);
    }
    const auto& [workload, dag] = at->second;
    if (!dag) {
      ++report.without_dag;
      continue;
    }
    const size_t before = out.features.size();
    try {
      replayer.replay(dag, record.schedule, nest);
      const int64_t count = features.extract(nest, record.hardware.cache_line_bytes, out.features);
      const double seconds = record.mean_cost();
      if (!(seconds > 0.0)) throw DataError("{} seconds, expected more than 0", seconds);
      data::sort_store_features(std::span(out.features).subspan(before));
      out.programs.push_back({record.line - 1, rows, count, workload, seconds});
      rows += count;
    } catch (const DataError& error) {
      out.features.resize(before);
      if (report.without_features++ == 0)
        report.first_reason = fmt::format("{}:{}: {}", records.string(), record.line, error.what());
    }
  }
  report.counts = reader.counts();
  if (!lines.empty() && wanted != std::ssize(lines))
    throw DataError("{}: {} of the {} requested lines are successfully measured records, expected all",
                    records.string(), wanted, lines.size());
}

}  // namespace

RecordSplit read_record_split(const std::filesystem::path& file) {
  const auto root = nlohmann::json::parse(read_input(file), nullptr, false);
  if (root.is_discarded()) throw DataError("{}: no JSON", file.string());
  RecordSplit split{read_lines(root, file, "train_lines"), read_lines(root, file, "eval_lines")};
  for (const int64_t line : split.test) {
    if (split.train.contains(line))
      throw DataError("{}: line {} is in train_lines and in eval_lines", file.string(), line);
  }
  if (split.train.empty() || split.test.empty())
    throw DataError("{}: no lines in train_lines or in eval_lines", file.string());
  return split;
}

RecordRows read_record_rows(const std::filesystem::path& records, const std::filesystem::path& dags,
                            const RecordLines& lines, int64_t per_workload, uint64_t seed) {
  RecordRows out;
  Gathered gathered;
  gather(records, dags, per_workload > 0 ? draw_lines(records, lines, per_workload, seed) : lines, gathered, out);
  if (gathered.programs.empty()) {
    throw DataError("{}: no record has features ({} without a DAG in {}){}{}", records.string(), out.without_dag,
                    dags.string(), out.first_reason.empty() ? "" : ": ", out.first_reason);
  }
  std::vector<int32_t> order(gathered.workloads.size()), place(order.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int32_t a, int32_t b) { return gathered.workloads[a] < gathered.workloads[b]; });
  for (size_t i = 0; i < order.size(); ++i) {
    place[order[i]] = i;
    out.rows.workload_names.push_back(gathered.workloads[order[i]]);
  }
  auto& programs = gathered.programs;
  for (auto& program : programs) program.workload = place[program.workload];
  std::sort(programs.begin(), programs.end(), [](const Gathered::Program& a, const Gathered::Program& b) {
    return std::pair(a.workload, a.line) < std::pair(b.workload, b.line);
  });
  constexpr int64_t kColumns = data::kStoreFeatures;
  out.rows.columns = kColumns;
  out.rows.features.reserve(gathered.features.size());
  for (const auto& program : programs) {
    const auto begin = gathered.features.begin() + program.first * kColumns;
    out.rows.features.insert(out.rows.features.end(), begin, begin + program.count * kColumns);
    out.rows.row_ptr.push_back(out.rows.row_ptr.back() + program.count);
    out.rows.workload.push_back(program.workload);
    out.rows.runtimes.push_back(program.seconds);
    out.lines.push_back(program.line);
  }
  return out;
}

ProgramRows rows_of_lines(const RecordRows& rows, const RecordLines& lines) {
  std::vector<int64_t> programs;
  for (size_t p = 0; p < rows.lines.size(); ++p) {
    if (lines.contains(rows.lines[p])) programs.push_back(p);
  }
  return select(rows.rows, programs);
}

}  // namespace foretime::models
