// parse_compute_dag: a DAG from its line of JSON.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <simdjson.h>

#include "base/error.h"
#include "base/numbers.h"
#include "data/frontends/ansor/dag/compute_dag.h"

namespace foretime::data {
namespace {

using Kind = ExpressionKind;
using simdjson::dom::array;
using simdjson::dom::element;

/// Returns whether a load of this name reads `stage`, and sets the index of its tensor as in Node::value. TVM names
/// tensors NAME, or NAME.v0, NAME.v1 … if there are several.
bool reads_stage(std::string_view name, const DagStage& stage, int64_t& value) {
  if (!name.starts_with(stage.name)) return false;
  name.remove_prefix(stage.name.size());
  value = 0;
  if (name.empty()) return true;
  if (stage.outputs() == 1 || !name.starts_with(".v")) return false;
  value = parse_number<int64_t>(name.substr(2)).value_or(-1);
  return value >= 0 && std::cmp_less(value++, stage.outputs());
}

/// Resolves the variables of the expression `root` to the axes of `stage` and its loads to stages of the same name
/// before `stage`, the last of them if several. Throws DataError where a name is unknown.
void resolve_names(ComputeDag& dag, size_t stage, int32_t root) {
  auto& node = dag.expressions.node(root);
  const DagStage& reader = dag.stages[stage];
  if (node.kind == Kind::variable) {
    const std::string& name = dag.expressions.name(root);
    for (size_t i = 0; i < reader.axis_count(); ++i)
      if (reader.axis(i).name == name) node.target = i;
    if (node.target < 0)
      throw DataError("stage {} ({}): variable {}, expected one of {}", stage, reader.name, name,
                      fmt::join(reader.axis_names(), ", "));
  } else if (node.kind == Kind::load) {
    const std::string& name = dag.expressions.name(root);
    for (size_t i = 0; i < stage; ++i) {
      int64_t value = 0;
      if (!reads_stage(name, dag.stages[i], value)) continue;
      node.target = i;
      node.value = value;
    }
    if (node.target < 0)
      throw DataError("stage {} ({}): reads {}, expected a stage before it", stage, reader.name, name);
  }
  for (uint32_t i = 0; i < dag.expressions.node(root).children; ++i)
    resolve_names(dag, stage, dag.expressions.child(root, i));
}

constexpr std::string_view kInputKind = "placeholder";  // TVM's word

template <class T>
T field(const element& object, std::string_view name, const char* expected) {
  T value;
  if (object[name].get(value) != simdjson::SUCCESS) throw DataError("{}: expected {}", name, expected);
  return value;
}

template <class T>
T field_or(const element& object, std::string_view name, T fallback) {
  T value;
  return object[name].get(value) == simdjson::SUCCESS ? value : fallback;
}

/// Resolves the variables of a combiner's result to its operands.
void resolve_operands(ComputeDag& dag, size_t stage, int32_t root) {
  const auto& operands = dag.stages[stage].operands;
  if (dag.expressions.node(root).kind == Kind::variable) {
    const auto found = std::ranges::find(operands, dag.expressions.name(root));
    if (found == operands.end())
      throw DataError("combine: variable {}, expected one of {}", dag.expressions.name(root),
                      fmt::join(operands, ", "));
    dag.expressions.node(root).target = found - operands.begin();
  }
  for (uint32_t i = 0; i < dag.expressions.node(root).children; ++i)
    resolve_operands(dag, stage, dag.expressions.child(root, i));
}

/// Indices and extents are text, or plain integers.
int32_t read_expression(const element& value, std::string_view name, ComputeDag& dag, size_t stage) {
  int64_t number = 0;
  if (value.get(number) == simdjson::SUCCESS) return dag.expressions.add_integer(number);
  std::string_view text;
  if (value.get(text) != simdjson::SUCCESS) throw DataError("{}: expected an expression", name);
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
      throw DataError("{}: expected a list of [name, extent]", name);
    axes.push_back({.name = std::string(axis)});
    if (pair.at(1).get(axes.back().extent) != simdjson::SUCCESS) axes.back().extent = 0;
    open.push_back(pair.at(1).value_unsafe());
  }
}

/// The access that a load of the body is, where the accesses are not one a load: looked for by name and indices. Null
/// where none has its name.
const DagRead* access_of_load(const ComputeDag& dag, const DagStage& reader, int32_t load) {
  const std::string text = to_text(dag.expressions, load);
  const DagRead* by_name = nullptr;
  for (const DagRead& read : reader.reads) {
    int64_t value = 0;
    if (!reads_stage(dag.expressions.name(load), dag.stages[read.stage], value)) continue;
    by_name = &read;
    std::vector<std::string> indices;
    for (const int32_t index : read.indices) indices.push_back(to_text(dag.expressions, index));
    if (text == fmt::format("{}[{}]", dag.expressions.name(load), fmt::join(indices, ", "))) return by_name;
  }
  return by_name;
}

/// Returns the parts between commas outside of brackets.
std::vector<std::string_view> split_tuple(std::string_view text) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') quoted = !quoted;
    if (quoted) continue;
    if (text[i] == '(' || text[i] == '[') ++depth;
    if (text[i] == ')' || text[i] == ']') --depth;
    if (text[i] != ',' || depth != 0) continue;
    parts.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

void read_bodies(ComputeDag& dag, size_t stage) {
  DagStage& reader = dag.stages[stage];
  try {
    std::vector<int32_t> bodies, loads, of_body;
    for (const std::string_view text : split_tuple(reader.body_text)) {
      bodies.push_back(parse_expression(text, dag.expressions));
      resolve_names(dag, stage, bodies.back());
      collect_loads(dag.expressions, bodies.back(), loads);
      of_body.resize(loads.size(), static_cast<int32_t>(bodies.size()) - 1);
    }
    if (bodies.size() != reader.outputs()) throw DataError("{} bodies of {} tensors", bodies.size(), reader.outputs());
    // Several stages may have one name, so a table has the numbers of what is read, in the order of the loads. TVM says
    // of each tensor of a reduction what all of them read.
    bool in_order = loads.size() == reader.reads.size() ||
                    (!reader.combiner.empty() && loads.size() * reader.outputs() == reader.reads.size());
    for (size_t i = 0; in_order && i < loads.size(); ++i) {
      const DagStage& source = dag.stages[reader.reads[i].stage];
      in_order = reads_stage(dag.expressions.name(loads[i]), source, dag.expressions.node(loads[i]).value);
    }
    for (size_t i = 0; i < loads.size(); ++i) {
      auto& node = dag.expressions.node(loads[i]);
      const DagRead* read = in_order ? &reader.reads[i] : access_of_load(dag, reader, loads[i]);
      if (read == nullptr) continue;
      node.target = read->stage;
      reads_stage(dag.expressions.name(loads[i]), dag.stages[node.target], node.value);
    }
    if (in_order) {
      reader.reads.resize(loads.size());
      for (size_t i = 0; i < loads.size(); ++i) {
        reader.reads[i].output = dag.expressions.output(loads[i]);
        reader.reads[i].body = of_body[i];
      }
    }
    reader.bodies = std::move(bodies);
  } catch (const DataError&) {
    reader.bodies.clear();  // can be replayed, since its reads are known
  }
}

/// combine: {"lhs": names, "rhs": names, "result": texts}, one of each for each tensor.
void read_combine(const element& object, ComputeDag& dag, size_t stage) {
  DagStage& reader = dag.stages[stage];
  element combine;
  if (object["combine"].get(combine) != simdjson::SUCCESS) return;
  for (const char* side : {"lhs", "rhs"}) {
    const auto names = field<array>(combine, side, "a list of names");
    if (names.size() != reader.outputs())
      throw DataError("combine: {}: {} names, expected {}", side, names.size(), reader.outputs());
    for (const element name : names) {
      std::string_view text;
      if (name.get(text) != simdjson::SUCCESS) throw DataError("combine: {}: expected a list of names", side);
      reader.operands.emplace_back(text);
    }
  }
  const auto results = field<array>(combine, "result", "a list of expressions");
  for (const element result : results) {
    std::string_view text;
    if (result.get(text) != simdjson::SUCCESS) throw DataError("combine: result: expected a list of expressions");
    const int32_t root = parse_expression(text, dag.expressions);
    resolve_operands(dag, stage, root);
    reader.combine.push_back(root);
  }
}

void read_compute(const element& object, ComputeDag& dag, size_t stage) {
  DagStage& reader = dag.stages[stage];
  std::vector<element> extents;
  read_axes(object, "axes", reader.axes, extents);
  read_axes(object, "reduce_axes", reader.reduce_axes, extents);
  for (size_t i = 0; i < extents.size(); ++i) {
    if (extents[i].is_int64()) continue;
    if (i < reader.axes.size()) throw DataError("axis {}: expected an integer extent", reader.axes[i].name);
    reader.reduce_axes[i - reader.axes.size()].symbolic = read_expression(extents[i], "reduce_axes", dag, stage);
  }
  reader.combiner = field_or<std::string_view>(object, "combiner", "");
  reader.body_text = field_or<std::string_view>(object, "body", "");
  const auto reads = field<array>(object, "reads", "a list of reads");
  for (const element item : reads) {
    DagRead read;
    const auto source = field<int64_t>(item, "op", "the id of a stage");
    if (source < 0 || std::cmp_greater_equal(source, stage))
      throw DataError("reads: stage {}, expected one before it", source);
    read.stage = source;
    const auto output = field_or<int64_t>(item, "output", 0);
    const auto& read_from = dag.stages[source];
    if (output < 0 || std::cmp_greater_equal(output, read_from.outputs()))
      throw DataError("reads: tensor {} of {}, expected 0 to {}", output, read_from.name, read_from.outputs() - 1);
    read.output = output;
    const auto indices = field<array>(item, "indices", "a list of expressions");
    for (const element index : indices) read.indices.push_back(read_expression(index, "indices", dag, stage));
    reader.reads.push_back(std::move(read));
  }
  std::vector<std::string> types;
  array listed;
  if (object["dtypes"].get(listed) == simdjson::SUCCESS) {
    for (const element type : listed) {
      std::string_view text;
      if (type.get(text) != simdjson::SUCCESS) throw DataError("dtypes: expected a list of names");
      types.emplace_back(text);
    }
  }
  // Only a stage of several outputs names their types.
  if (types.empty()) types.assign(split_tuple(reader.body_text).size(), reader.types.front());
  reader.types = std::move(types);
  read_bodies(dag, stage);
  read_combine(object, dag, stage);
}

void read_stage(const element& object, ComputeDag& dag) {
  const size_t stage = dag.stages.size();
  const auto id = field<int64_t>(object, "id", "an integer");
  if (std::cmp_not_equal(id, stage)) throw DataError("id {}, expected {}", id, stage);
  dag.stages.emplace_back();
  DagStage& added = dag.stages.back();
  added.name = field<std::string_view>(object, "name", "a name");
  added.types = {std::string(field_or<std::string_view>(object, "dtype", ""))};
  added.tag = field_or<std::string_view>(object, "tag", "");
  added.output = field_or<bool>(object, "is_output", false);
  const auto shape = field<array>(object, "shape", "a list of integers");
  for (const element extent : shape) {
    int64_t value = 0;
    if (extent.get(value) != simdjson::SUCCESS) throw DataError("shape: expected a list of integers");
    added.shape.push_back(value);
  }
  const auto kind = field<std::string_view>(object, "kind", "the kind of a stage");
  if (kind != kInputKind && kind != "compute") throw DataError("kind: {}, expected {} or compute", kind, kInputKind);
  added.input = kind == kInputKind;
  if (!added.input) read_compute(object, dag, stage);
}

}  // namespace

ComputeDag parse_compute_dag(std::string_view json) {
  simdjson::dom::parser parser;
  element root;
  if (const auto error = parser.parse(json.data(), json.size()).get(root))
    throw DataError("no JSON: {}", simdjson::error_message(error));
  ComputeDag dag;
  dag.workload_key = field<std::string_view>(root, "workload_key", "a workload key");
  const auto stages = field<array>(root, "stages", "a list of stages");
  if (stages.size() > kMostDagStages) throw DataError("stages: more than {}", kMostDagStages);
  for (const element stage : stages) {
    const size_t number = dag.stages.size();
    try {
      read_stage(stage, dag);
    } catch (const DataError& error) {
      throw DataError("stages[{}]: {}", number, error.what());
    }
  }
  validate(dag);
  if (root["flop_ct"].get(dag.flops) != simdjson::SUCCESS) dag.flops = estimate_flops(dag);
  return dag;
}

}  // namespace foretime::data
