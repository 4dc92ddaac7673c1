#include "data/frontends/ansor/dag/dag_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <simdjson.h>

#include "base/error.h"
#include "data/frontends/ansor/dag/workload_key.h"

namespace foretime::data {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;

constexpr std::string_view kInputKind =
    "place"
    "holder";  // TVM's word

template <class T>
T field(const element& object, std::string_view name, const char* expected) {
  T value;
  if (object[name].get(value) != simdjson::SUCCESS) throw DataError(fmt::format("{}: expected {}", name, expected));
  return value;
}

template <class T>
T field_or(const element& object, std::string_view name, T fallback) {
  T value;
  return object[name].get(value) == simdjson::SUCCESS ? value : fallback;
}

/// Indices and extents are text, or plain integers.
int32_t read_expression(const element& value, std::string_view name, ComputeDag& dag, size_t stage) {
  int64_t number = 0;
  if (value.get(number) == simdjson::SUCCESS) return dag.expressions.add_integer(number);
  std::string_view text;
  if (value.get(text) != simdjson::SUCCESS) throw DataError(fmt::format("{}: expected an expression", name));
  const int32_t root = parse_expression(text, dag.expressions);
  resolve_names(dag, stage, root);
  return root;
}

void read_axes(const element& object, std::string_view name, std::vector<DagAxis>& axes, std::vector<element>& open) {
  const auto items = field<array>(object, name, "a list of [name, extent]");
  for (const element item : items) {
    array pair;
    std::string_view axis;
    if (item.get(pair) != simdjson::SUCCESS || pair.size() != 2 || pair.at(0).get(axis) != simdjson::SUCCESS)
      throw DataError(fmt::format("{}: expected a list of [name, extent]", name));
    axes.push_back({.name = std::string(axis)});
    if (pair.at(1).get(axes.back().extent) != simdjson::SUCCESS) axes.back().extent = 0;
    open.push_back(pair.at(1).value_unsafe());
  }
}

/// The stage that a load of the body reads, where the accesses are not one a load: looked for by name and indices.
int32_t source_of_load(const ComputeDag& dag, const DagStage& reader, int32_t load) {
  const std::string text = to_text(dag.expressions, load);
  int32_t by_name = -1;
  for (const DagRead& read : reader.reads) {
    const std::string& name = dag.stages[static_cast<size_t>(read.stage)].name;
    if (name != dag.expressions.name(load)) continue;
    by_name = read.stage;
    std::vector<std::string> indices;
    for (const int32_t index : read.indices) indices.push_back(to_text(dag.expressions, index));
    if (text == fmt::format("{}[{}]", name, fmt::join(indices, ", "))) return read.stage;
  }
  return by_name >= 0 ? by_name : dag.expressions.node(load).target;
}

void read_body(ComputeDag& dag, size_t stage) {
  DagStage& reader = dag.stages[stage];
  try {
    const int32_t root = parse_expression(reader.body_text, dag.expressions);
    resolve_names(dag, stage, root);
    std::vector<int32_t> loads;
    collect_loads(dag.expressions, root, loads);
    // Several stages may have one name, so a table has the numbers of what is read, in the order of the loads.
    bool in_order = loads.size() == reader.reads.size();
    for (size_t i = 0; in_order && i < loads.size(); ++i)
      in_order = dag.expressions.name(loads[i]) == dag.stages[static_cast<size_t>(reader.reads[i].stage)].name;
    for (size_t i = 0; i < loads.size(); ++i)
      dag.expressions.node(loads[i]).target = in_order ? reader.reads[i].stage : source_of_load(dag, reader, loads[i]);
    reader.body = root;
  } catch (const DataError&) {
    reader.body = -1;  // its reads are known, so it can be replayed
  }
}

void read_compute(const element& object, ComputeDag& dag, size_t stage) {
  DagStage& reader = dag.stages[stage];
  std::vector<element> extents;
  read_axes(object, "axes", reader.axes, extents);
  read_axes(object, "reduce_axes", reader.reduce_axes, extents);
  for (size_t i = 0; i < extents.size(); ++i) {
    if (extents[i].is_int64()) continue;
    if (i < reader.axes.size())
      throw DataError(fmt::format("axis {}: expected an integer extent", reader.axes[i].name));
    reader.reduce_axes[i - reader.axes.size()].symbolic = read_expression(extents[i], "reduce_axes", dag, stage);
  }
  reader.combiner = field_or<std::string_view>(object, "combiner", "");
  reader.body_text = field_or<std::string_view>(object, "body", "");
  const auto reads = field<array>(object, "reads", "a list of reads");
  for (const element item : reads) {
    DagRead read;
    const auto source = field<int64_t>(item, "op", "the id of a stage");
    if (source < 0 || static_cast<size_t>(source) >= stage)
      throw DataError(fmt::format("reads: stage {}, expected one before it", source));
    read.stage = static_cast<int32_t>(source);
    const auto indices = field<array>(item, "indices", "a list of expressions");
    for (const element index : indices) read.indices.push_back(read_expression(index, "indices", dag, stage));
    reader.reads.push_back(std::move(read));
  }
  read_body(dag, stage);
}

void read_stage(const element& object, ComputeDag& dag) {
  const size_t stage = dag.stages.size();
  const auto id = field<int64_t>(object, "id", "an integer");
  if (id != static_cast<int64_t>(stage)) throw DataError(fmt::format("id {}, expected {}", id, stage));
  dag.stages.emplace_back();
  DagStage& added = dag.stages.back();
  added.name = field<std::string_view>(object, "name", "a name");
  added.type = field_or<std::string_view>(object, "dtype", "");
  added.tag = field_or<std::string_view>(object, "tag", "");
  added.output = field_or<bool>(object, "is_output", false);
  added.flops = field_or<double>(object, "flops", 0.0);
  const auto shape = field<array>(object, "shape", "a list of integers");
  for (const element extent : shape) {
    int64_t value = 0;
    if (extent.get(value) != simdjson::SUCCESS) throw DataError("shape: expected a list of integers");
    added.shape.push_back(value);
  }
  const auto kind = field<std::string_view>(object, "kind", "the kind of a stage");
  if (kind != kInputKind && kind != "compute")
    throw DataError(fmt::format("kind: {}, expected {} or compute", kind, kInputKind));
  added.input = kind == kInputKind;
  if (!added.input) read_compute(object, dag, stage);
}

}  // namespace

ComputeDag parse_compute_dag(std::string_view json) {
  simdjson::dom::parser parser;
  element root;
  if (const auto error = parser.parse(json.data(), json.size()).get(root))
    throw DataError(fmt::format("no JSON: {}", simdjson::error_message(error)));
  ComputeDag dag;
  dag.workload_key = field<std::string_view>(root, "workload_key", "a workload key");
  const auto stages = field<array>(root, "stages", "a list of stages");
  if (stages.size() > kMostDagStages) throw DataError(fmt::format("stages: more than {}", kMostDagStages));
  for (const element stage : stages) {
    const size_t number = dag.stages.size();
    try {
      read_stage(stage, dag);
    } catch (const DataError& error) {
      throw DataError(fmt::format("stages[{}]: {}", number, error.what()));
    }
  }
  validate(dag);
  return dag;
}

void DagTable::add(std::shared_ptr<const ComputeDag> dag) {
  const WorkloadKey key = parse_workload_key(dag->workload_key);
  if (!by_key_.emplace(dag->workload_key, dags_.size()).second)
    throw DataError(fmt::format("workload key {}: occurs twice", dag->workload_key));
  // Functions' arguments may nest in ways that matter; the md5 of a DAG with its shapes does not.
  if (key.is_hash) by_flat_key_.emplace(key.flat, dags_.size());
  dags_.push_back(std::move(dag));
}

std::shared_ptr<const ComputeDag> DagTable::find(const std::string& workload_key) const {
  const auto exact = by_key_.find(workload_key);
  if (exact != by_key_.end()) return dags_[exact->second];
  const WorkloadKey key = parse_workload_key(workload_key);
  const auto flat = key.is_hash ? by_flat_key_.find(key.flat) : by_flat_key_.end();
  return flat == by_flat_key_.end() ? nullptr : dags_[flat->second];
}

}  // namespace foretime::data
