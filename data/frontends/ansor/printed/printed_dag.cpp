#include "data/frontends/ansor/printed/printed_dag.h"

#include <algorithm>
#include <optional>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/frontends/ansor/dag/compute_dag.h"
#include "data/frontends/ansor/dag/dag_table.h"
#include "data/frontends/ansor/printed/stage_json.h"
#include "data/frontends/ansor/printed/workload_facts.h"

namespace foretime::data {
namespace {

/// The shapes in the key of an md5; nothing: its name is that of a function, whose arguments may be anything.
std::optional<std::vector<std::vector<int64_t>>> shapes_of(const std::string& workload_key) {
  if (!parse_workload_key(workload_key).is_hash) return {};
  const auto key = nlohmann::json::parse(workload_key);
  std::vector<std::vector<int64_t>> shapes;
  for (size_t i = 1; i < key.size(); ++i) {
    if (!key[i].is_array())
      throw DataError("workload key {}: flat numbers, as old logs have them, expected shapes in brackets",
                      workload_key);
    auto& shape = shapes.emplace_back();
    for (const auto& extent : key[i]) shape.push_back(extent.is_number_integer() ? extent.get<int64_t>() : 0);
  }
  return shapes;
}

}  // namespace

std::vector<int32_t> PrintedProgram::axes() const {
  std::vector<int32_t> counts;
  for (const auto& stage : stages_) counts.push_back(stage.names.size());
  return counts;
}

std::vector<int32_t> PrintedProgram::spatial_axes() const {
  std::vector<int32_t> counts;
  for (const auto& stage : stages_) counts.push_back(stage.spatial);
  return counts;
}

bool PrintedProgram::has_inputs_of(const std::string& workload_key) const {
  auto shapes = shapes_of(workload_key);
  for (const auto& stage : stages_) {
    if (!stage.input || !shapes) continue;
    const auto found = std::ranges::find(*shapes, stage.shape);
    if (found == shapes->end()) return false;
    shapes->erase(found);
  }
  return true;
}

std::string PrintedProgram::to_json(const std::string& workload_key, const SplitLengths& lengths,
                                    const PrintedHints& hints) const {
  auto shapes = shapes_of(workload_key);
  for (const auto& stage : stages_) {
    if (!stage.input || !shapes) continue;
    const auto found = std::ranges::find(*shapes, stage.shape);
    if (found == shapes->end())
      throw DataError("input {} is [{}], which the key does not have", stage.name, fmt::join(stage.shape, ", "));
    shapes->erase(found);  // what is left are those of the outputs
  }
  WorkloadFacts facts;
  find_reads(stages_, hints, shapes ? shapes->size() : 1, facts);
  find_lengths(stages_, hints, lengths, shapes.value_or(std::vector<std::vector<int64_t>>()), facts);
  find_types(stages_, hints, facts);
  nlohmann::ordered_json json = {{"workload_key", workload_key}};
  for (size_t s = 0; s < stages_.size(); ++s) json["stages"].push_back(stage_json(stages_, facts, s));
  json["flop_ct"] = parse_compute_dag(json.dump()).flops;
  return json.dump();
}

}  // namespace foretime::data
