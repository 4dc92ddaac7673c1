#include "models/baselines/record_rows.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "data/frontends/ansor/dag/compute_dag.h"
#include "data/frontends/ansor/dag/dag_table.h"
#include "data/frontends/ansor/replay/replay.h"
#include "models/baselines/store_features/store_features.h"

namespace foretime::models {
namespace {

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
  StoreFeatures features;
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
      if (!(seconds > 0.0)) throw DataError("run time of {} seconds, expected more than 0", seconds);
      sort_store_features(std::span(out.features).subspan(before));
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
    throw DataError("{}: {} of the {} requested lines hold a tuning record, expected all", records.string(), wanted,
                    lines.size());
}

}  // namespace

RecordRows read_record_rows(const std::filesystem::path& records, const std::filesystem::path& dags,
                            const RecordLines& lines) {
  RecordRows out;
  Gathered gathered;
  gather(records, dags, lines, gathered, out);
  if (gathered.programs.empty())
    throw DataError("{}: features could be computed for no record; {} have no DAG in {}{}{}", records.string(),
                    out.without_dag, dags.string(),
                    out.first_reason.empty() ? "" : "; the first of the others: ", out.first_reason);
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
  constexpr int64_t kColumns = kStoreFeatures;
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

}  // namespace foretime::models
