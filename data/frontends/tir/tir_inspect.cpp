#include "data/frontends/tir/tir_inspect.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/frontends/tir/tir_file.h"

namespace foretime::data {
namespace {

constexpr size_t kFailuresShown = 5;

template <class Names, class Counts>
std::vector<std::pair<std::string, int64_t>> by_count(const Names& names, const Counts& counts) {
  std::vector<std::pair<std::string, int64_t>> rows;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0) rows.emplace_back(names[i], counts[i]);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return rows;
}

std::string join(const std::vector<std::pair<std::string, int64_t>>& rows) {
  std::string text;
  for (const auto& [name, count] : rows) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, count);
  return text.empty() ? "none" : text;
}

std::string versions_of(const TirSummary& summary) {
  std::string text;
  for (const auto& [version, count] : summary.versions) {
    text += fmt::format("{}{}{} ({})", text.empty() ? "" : ", ", version.empty() ? "not named" : version,
                        is_known_tvm_version(version) ? "" : ", outside v0.8 to v0.14", count);
  }
  return text;
}

void note_failure(TirReport& report, const std::string& message) {
  ++report.failures;
  if (report.first_failures.size() < kFailuresShown) report.first_failures.push_back(message);
}

}  // namespace

TirReport inspect_tir(const std::filesystem::path& path, const TirLimits& limits) {
  TirReport report;
  report.file = path.string();
  std::map<std::string, TirReader> readers;
  std::set<std::string> workloads;
  TirFile file(path);
  TirRecord record;
  for (bool more = true; more;) {
    try {
      more = file.next(record);
    } catch (const DataError& error) {
      // A line that is nothing stands alone; a stream that is damaged has no next line.
      note_failure(report, error.what());
      more = record.line > 0;
      continue;
    }
    if (!more) break;
    ++report.records;
    report.labelled += record.runtime > 0.0;
    if (!record.workload.empty()) workloads.insert(record.workload);
    for (const auto& [member, text] : record.texts) {
      const std::string origin =
          fmt::format("{}: {}{}{}", path.string(), record.id, member.empty() ? "" : ": ", member);
      try {
        ProgramNodes trees;
        readers.try_emplace(member, limits).first->second.read(text, origin, trees);
      } catch (const DataError& error) {
        note_failure(report, error.what());
      }
    }
  }
  report.workloads = static_cast<int64_t>(workloads.size());
  for (const auto& [member, reader] : readers) {
    if (reader.summary().documents > 0) report.members[member] = reader.summary();
  }
  if (report.members.empty())
    throw DataError(report.first_failures.empty() ? fmt::format("{}: no programs", report.file)
                                                  : report.first_failures.front());
  return report;
}

std::string to_text(const TirReport& report) {
  std::string text = fmt::format("{}: TVM save_json text, {} records", report.file, report.records);
  if (report.workloads > 0) text += fmt::format(" of {} workloads", report.workloads);
  text += report.labelled > 0 ? fmt::format(", {} with run times\n", report.labelled) : ", no run times\n";
  for (const auto& [member, summary] : report.members) {
    text += fmt::format("  {}: {} syntax trees in {} texts\n", member.empty() ? "programs" : member, summary.trees,
                        summary.documents);
    text += fmt::format("    TVM            {}\n", versions_of(summary));
    text += fmt::format("    nodes          {} in the trees ({} stood in the texts); largest {}, deepest {} levels\n",
                        summary.tree_nodes, summary.dag_nodes, summary.largest_tree, summary.deepest_tree);
    text += fmt::format("    node types     {}\n", join(by_count(tir_type_names(), summary.node_types)));
    text += fmt::format("    calls          {}\n", join(by_count(call_op_names(), summary.call_ops)));
    text += fmt::format("    unknown types  {}\n", join({summary.unknown_types.begin(), summary.unknown_types.end()}));
  }
  if (report.failures > 0) text += fmt::format("  could not be read: {}\n", report.failures);
  for (const auto& message : report.first_failures) text += fmt::format("    {}\n", message);
  return text;
}

std::string to_json(const TirReport& report) {
  nlohmann::ordered_json json;
  json["file"] = report.file;
  json["kind"] = "tir";
  json["records"] = report.records;
  json["workloads"] = report.workloads;
  json["labelled"] = report.labelled;
  for (const auto& [member, summary] : report.members) {
    nlohmann::ordered_json one;
    one["texts"] = summary.documents;
    one["trees"] = summary.trees;
    one["versions"] = summary.versions;
    one["dag_nodes"] = summary.dag_nodes;
    one["tree_nodes"] = summary.tree_nodes;
    one["largest_tree"] = summary.largest_tree;
    one["deepest_tree"] = summary.deepest_tree;
    for (const auto& [name, count] : by_count(tir_type_names(), summary.node_types)) one["node_types"][name] = count;
    for (const auto& [name, count] : by_count(call_op_names(), summary.call_ops)) one["calls"][name] = count;
    one["unknown_types"] = summary.unknown_types;
    json["members"][member] = one;
  }
  json["failures"] = report.failures;
  json["first_failures"] = report.first_failures;
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace foretime::data
