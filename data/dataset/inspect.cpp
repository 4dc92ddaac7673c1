#include "data/dataset/inspect.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/index_range.h"
#include "base/kendall.h"

namespace foretime::data {
namespace {

int64_t constant_columns(const GraphBlock& graphs) {
  int64_t constant = 0;
  for (int64_t f = 0; f < graphs.feature_count; ++f) {
    bool same = true;
    for (int64_t v = 1; v < graphs.nodes() && same; ++v)
      same = graphs.node_features[v * graphs.feature_count + f] == graphs.node_features[f];
    constant += same;
  }
  return constant;
}

void count_configurations(std::vector<uint64_t> hashes, GroupReport& report) {
  std::ranges::sort(hashes);
  for (size_t first = 0, last = 0; first < hashes.size(); first = last) {
    while (last < hashes.size() && hashes[last] == hashes[first]) ++last;
    ++report.distinct_configurations;
    report.most_repeated = std::max<int64_t>(report.most_repeated, last - first);
  }
}

nlohmann::ordered_json to_object(const GroupReport& report) {
  nlohmann::ordered_json json;
  json["file"] = report.file;
  json["name"] = report.name;
  json["kind"] = kind_name(report.kind);
  json["labelled"] = report.labelled;
  json["graphs"] = report.graphs;
  json["nodes"] = report.nodes;
  json["edges"] = report.edges;
  json["features"] = report.feature_count;
  json["constant_features"] = report.constant_features;
  json["node_types"] = report.node_types;
  json["candidates"] = report.candidates;
  json["distinct_configurations"] = report.distinct_configurations;
  json["most_repeated"] = report.most_repeated;
  if (report.kind == CandidateKind::layout) {
    json["configurable"] = report.configurable;
    json["layout_rows"] = {{"min", report.fewest_rows}, {"mean", report.mean_rows}, {"max", report.most_rows}};
  }
  if (report.labelled) {
    nlohmann::ordered_json runtimes;
    runtimes["unit"] = unit_name(report.unit);
    runtimes["min"] = report.runtimes.minimum;
    for (size_t q = 0; q < RuntimeSummary::kLevels.size(); ++q)
      runtimes[fmt::format("q{:02.0f}", 100 * RuntimeSummary::kLevels[q])] = report.runtimes.quantiles[q];
    runtimes["max"] = report.runtimes.maximum;
    runtimes["mean"] = report.runtimes.mean;
    runtimes["distinct"] = report.runtimes.distinct;
    json["runtimes"] = runtimes;
    json["failed"] = report.failed;
    json["noise_ceiling_tau"] = report.noise_ceiling;
  }
  json["odd"] = report.odd;
  return json;
}

}  // namespace

RuntimeSummary summarize(std::vector<double> runtimes) {
  RuntimeSummary summary;
  if (runtimes.empty()) return summary;
  summary.mean = std::accumulate(runtimes.begin(), runtimes.end(), 0.0) / runtimes.size();
  std::ranges::sort(runtimes);
  summary.minimum = runtimes.front();
  summary.maximum = runtimes.back();
  for (size_t q = 0; q < summary.quantiles.size(); ++q) {
    const double position = RuntimeSummary::kLevels[q] * (runtimes.size() - 1);
    const auto below = static_cast<size_t>(position), above = std::min(below + 1, runtimes.size() - 1);
    summary.quantiles[q] = std::lerp(runtimes[below], runtimes[above], position - below);
  }
  summary.distinct = std::distance(runtimes.begin(), std::unique(runtimes.begin(), runtimes.end()));
  return summary;
}

const char* unit_name(RuntimeUnit unit) {
  constexpr const char* kNames[] = {"ns", "s", "× normaliser"};
  return kNames[index_of(unit)];
}

GroupReport inspect_group(const Group& group, const std::string& file) {
  GroupReport report;
  report.file = file;
  report.name = group.name;
  report.kind = group.kind;
  report.unit = group.unit;
  report.labelled = group.labelled();
  static_cast<GroupSizes&>(report) = sizes_of(group);
  report.constant_features = constant_columns(group.graphs);
  std::array<bool, 256> seen{};
  for (const uint8_t type : group.graphs.node_types) seen[type] = true;
  report.node_types = std::ranges::count(seen, true);

  const std::vector<uint64_t> hashes = configuration_hashes(group);
  count_configurations(hashes, report);
  if (report.configurable > 0) {
    report.fewest_rows = std::numeric_limits<int64_t>::max();
    for (int64_t j = 0; j < report.configurable; ++j) {
      const int64_t rows = group.layout.row_ptr[j + 1] - group.layout.row_ptr[j];
      report.fewest_rows = std::min(report.fewest_rows, rows);
      report.most_rows = std::max(report.most_rows, rows);
    }
    report.mean_rows = static_cast<double>(group.layout.row_ptr[report.configurable]) / report.configurable;
  }
  report.noise_ceiling = std::numeric_limits<double>::quiet_NaN();
  if (report.labelled) {
    std::vector<double> ran(group.runtimes.begin(), group.runtimes.end());
    report.failed = std::erase_if(ran, [](double time) { return std::isinf(time); });
    report.runtimes = summarize(std::move(ran));
    report.noise_ceiling = noise_ceiling_tau(hashes, group.runtimes.span());
  }
  return report;
}

std::string to_text(const GroupReport& report) {
  std::string text = fmt::format("{}  [{}]  {}\n", report.name, kind_name(report.kind), report.file);
  text += fmt::format("  graphs      {} with {} nodes of {} types and {} edges\n", report.graphs, report.nodes,
                      report.node_types, report.edges);
  text += fmt::format("  features    {} a node, {} of them constant\n", report.feature_count, report.constant_features);
  text += fmt::format("  candidates  {}, of which {} distinct; the commonest occurs {} times\n", report.candidates,
                      report.distinct_configurations, report.most_repeated);
  if (report.kind == CandidateKind::layout)
    text += fmt::format("  layouts     {} configurable nodes with {} to {} distinct rows each, {:.2f} on average\n",
                        report.configurable, report.fewest_rows, report.most_rows, report.mean_rows);
  for (const auto& line : report.odd) text += fmt::format("  looks odd   {}\n", line);
  if (!report.labelled) return text + "  run times   none: the file is unlabelled\n";
  const RuntimeSummary& times = report.runtimes;
  text += fmt::format("  run times   {} distinct, in {}: mean {:.6g}\n", times.distinct, unit_name(report.unit),
                      times.mean);
  text += fmt::format("              min {:.6g}", times.minimum);
  for (size_t q = 0; q < times.quantiles.size(); ++q)
    text += fmt::format("  {:.0f} % {:.6g}", 100 * RuntimeSummary::kLevels[q], times.quantiles[q]);
  text += fmt::format("  max {:.6g}\n", times.maximum);
  if (report.failed > 0)
    text += fmt::format("  failed      {} candidates: they rank behind all that ran\n", report.failed);
  if (report.distinct_configurations == report.candidates)
    return text + "  ceiling     unknown: no configuration was measured twice\n";
  if (std::isnan(report.noise_ceiling)) return text + "  ceiling     τ is undefined: all run times are equal\n";
  return text +
         fmt::format("  ceiling     τ {:.4f}: what knowing each distinct configuration's mean run time would reach\n",
                     report.noise_ceiling);
}

std::string to_json(const std::vector<GroupReport>& reports) {
  auto json = nlohmann::ordered_json::array();
  for (const GroupReport& report : reports) json.push_back(to_object(report));
  return json.dump(2) + "\n";
}

}  // namespace foretime::data
