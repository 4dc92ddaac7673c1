#include "bench/xgboost_rows.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/read_input.h"
#include "data/files/npz_reader.h"
#include "metrics/metrics.h"
#include "models/graph/error.h"

namespace foretime::models {
namespace {

using data::kAnySize;
using data::NpzReader;
using data::ShapeRule;

constexpr double kTrainingPart = 0.8;
const ShapeRule kAnyList{{kAnySize}, "(any,)"};

/// Holds the workload, run time in seconds and number of operations of a program.
struct Measured {
  int32_t workload;
  double runtime, flops;
};

void check_positive(const NpzReader& file, const char* member, const std::vector<double>& values) {
  for (size_t p = 0; p < values.size(); ++p) {
    if (!(values[p] > 0.0) || !std::isfinite(values[p]))
      throw DataError("{}: {} at program {}, expected a number above 0", file.origin(member), values[p], p);
  }
}

std::unordered_map<std::string, Measured> read_measured(const std::vector<std::filesystem::path>& programs,
                                                        std::vector<std::string>& workload_names) {
  std::unordered_map<std::string, Measured> measured;
  for (const auto& path : programs) {
    const NpzReader file(path);
    const auto ids = file.read_text("id", kAnyList);
    const ShapeRule rule{{static_cast<int64_t>(ids.size())}, "(graphs,)"};
    const auto runtimes = file.read<double>("runtime", rule), flops = file.read<double>("flop", rule);
    check_positive(file, "runtime", runtimes);
    check_positive(file, "flop", flops);
    const auto workload = static_cast<int32_t>(workload_names.size());
    workload_names.push_back(path.stem().string());
    for (size_t p = 0; p < ids.size(); ++p) measured[ids[p]] = {workload, runtimes[p], flops[p]};
  }
  return measured;
}

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

}  // namespace

ProgramRows read_loop_rows(const std::filesystem::path& path, const std::vector<std::filesystem::path>& programs) {
  const auto all = read_loop_features(path);
  ProgramRows rows;
  rows.columns = all.columns;
  const auto measured = read_measured(programs, rows.workload_names);
  for (int64_t p = 0; p < all.programs(); ++p) {
    const auto& id = all.ids[static_cast<size_t>(p)];
    const auto found = measured.find(id);
    if (found == measured.end()) continue;
    const auto features = all.rows_of(p);
    rows.features.insert(rows.features.end(), features.begin(), features.end());
    rows.row_ptr.push_back(static_cast<int64_t>(rows.features.size()) / rows.columns);
    rows.workload.push_back(found->second.workload);
    rows.runtimes.push_back(found->second.runtime);
    rows.flops.push_back(found->second.flops);
    rows.ids.push_back(id);
  }
  if (rows.programs() == 0)
    throw DataError("{}: id: none of its {} ids is in the program files", path.string(), all.ids.size());
  return rows;
}

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

ProgramRows rows_of_lines(const RecordRows& rows, const RecordLines& lines) {
  std::vector<int64_t> programs;
  for (size_t p = 0; p < rows.lines.size(); ++p) {
    if (lines.contains(rows.lines[p])) programs.push_back(static_cast<int64_t>(p));
  }
  return select(rows.rows, programs);
}

WorkloadSplit split_workloads(const ProgramRows& rows, const std::vector<std::string>& given, double share,
                              uint64_t seed) {
  std::vector<bool> chosen(rows.workload_names.size(), false);
  for (const auto& name : given) {
    const auto found = std::find(rows.workload_names.begin(), rows.workload_names.end(), name);
    if (found == rows.workload_names.end())
      throw ModelError("workload '{}', expected one of {}", name, fmt::join(rows.workload_names, ", "));
    chosen[static_cast<size_t>(found - rows.workload_names.begin())] = true;
  }
  WorkloadSplit split;
  auto known = programs_of(rows, chosen);
  chosen.flip();
  split.test = programs_of(rows, chosen);
  std::mt19937_64 random(seed);
  for (size_t i = known.size(); i > 1; --i) std::swap(known[i - 1], known[random() % i]);
  const auto training = static_cast<std::ptrdiff_t>(std::lround(kTrainingPart * static_cast<double>(known.size())));
  split.validation.assign(known.begin() + training, known.end());
  const auto used = std::clamp<std::ptrdiff_t>(std::lround(share * static_cast<double>(training)), 1, training);
  split.training.assign(known.begin(), known.begin() + used);
  return split;
}

std::vector<WorkloadRanking> rank_by_workload(const ProgramRows& rows, std::span<const double> predicted) {
  std::vector<std::vector<double>> scores(rows.workload_names.size()), runtimes(rows.workload_names.size());
  for (size_t p = 0; p < predicted.size(); ++p) {
    scores[static_cast<size_t>(rows.workload[p])].push_back(predicted[p]);
    runtimes[static_cast<size_t>(rows.workload[p])].push_back(rows.runtimes[p]);
  }
  std::vector<WorkloadRanking> rankings;
  for (size_t w = 0; w < scores.size(); ++w) {
    if (scores[w].size() < 2) continue;
    RankingReport report;
    report.workloads = 1;
    report.programs = static_cast<int64_t>(scores[w].size());
    report.pairwise_accuracy = metrics::pairwise_accuracy(scores[w], runtimes[w]);
    report.kendall_tau = metrics::kendall_tau(scores[w], runtimes[w]);
    report.top1_score = metrics::top_k_score(scores[w], runtimes[w], 1);
    report.top5_score = metrics::top_k_score(scores[w], runtimes[w], 5);
    rankings.push_back({rows.workload_names[w], report});
  }
  return rankings;
}

RankingReport rank_programs(const ProgramRows& rows, std::span<const double> predicted) {
  RankingReport report;
  const auto rankings = rank_by_workload(rows, predicted);
  const auto mean = [&](double RankingReport::*metric) {
    double sum = 0.0;
    int64_t count = 0;
    for (const auto& ranking : rankings) {
      if (std::isnan(ranking.report.*metric)) continue;
      sum += ranking.report.*metric;
      ++count;
    }
    return count > 0 ? sum / static_cast<double>(count) : std::nan("");
  };
  report.workloads = static_cast<int64_t>(rankings.size());
  for (const auto& ranking : rankings) report.programs += ranking.report.programs;
  report.pairwise_accuracy = mean(&RankingReport::pairwise_accuracy);
  report.kendall_tau = mean(&RankingReport::kendall_tau);
  report.top1_score = mean(&RankingReport::top1_score);
  report.top5_score = mean(&RankingReport::top5_score);
  return report;
}

}  // namespace foretime::models
