#include "data/frontends/ansor/dag/compute_dag.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <simdjson.h>

#include "base/error.h"
#include "data/files/line_source.h"

namespace foretime::data {
namespace {

using Kind = ExpressionKind;

[[noreturn]] void fail(const ComputeDag& dag, size_t stage, const std::string& message) {
  throw DataError("stage {} ({}): {}", stage, dag.stages[stage].name, message);
}

std::vector<std::string> axis_names(const DagStage& stage) {
  std::vector<std::string> names;
  for (size_t i = 0; i < stage.axis_count(); ++i) names.push_back(stage.axis(i).name);
  return names;
}

/// Variables point to axes below `axes`, loads to stages before `stage`.
void check_targets(const ComputeDag& dag, size_t stage, int32_t root, size_t axes) {
  const auto& node = dag.expressions.node(root);
  if (node.kind == Kind::variable && (node.target < 0 || static_cast<size_t>(node.target) >= axes))
    fail(dag, stage, fmt::format("variable {}, expected an axis of the stage", dag.expressions.name(root)));
  if (node.kind == Kind::load) {
    if (node.target < 0 || static_cast<size_t>(node.target) >= stage)
      fail(dag, stage, fmt::format("reads {}, expected a stage before it", dag.expressions.name(root)));
    const DagStage& source = dag.stages[static_cast<size_t>(node.target)];
    const size_t rank = source.shape.size();
    if (dag.expressions.output(root) >= source.outputs())
      fail(dag, stage, fmt::format("reads {}, of which there are {}", dag.expressions.name(root), source.outputs()));
    if (node.children != rank)
      fail(dag, stage, fmt::format("{} indices of {}, expected {}", node.children, dag.expressions.name(root), rank));
  }
  for (const int32_t child : dag.expressions.children(root)) check_targets(dag, stage, child, axes);
}

void check_axes(const ComputeDag& dag, size_t stage) {
  const DagStage& checked = dag.stages[stage];
  if (checked.axis_count() > kMostAxes)
    fail(dag, stage, fmt::format("{} axes, expected at most {}", checked.axis_count(), kMostAxes));
  if (checked.axes.size() != checked.shape.size())
    fail(dag, stage, fmt::format("{} axes for a shape of {}", checked.axes.size(), checked.shape.size()));
  for (size_t i = 0; i < checked.axis_count(); ++i) {
    const DagAxis& axis = checked.axis(i);
    if (axis.symbolic >= 0) {
      if (i < checked.axes.size()) fail(dag, stage, fmt::format("axis {}: expected a constant extent", axis.name));
      check_targets(dag, stage, axis.symbolic, checked.axes.size());
    } else if (axis.extent < 1 || axis.extent > kLargestExtent) {
      fail(dag, stage, fmt::format("axis {}: extent {}, expected 1 to {}", axis.name, axis.extent, kLargestExtent));
    }
  }
}

/// Whether a load of this name reads `stage`; sets which of its tensors, as in Node::value. TVM calls them NAME, or
/// NAME.v0, NAME.v1 ... where there are several.
bool reads_stage(std::string_view name, const DagStage& stage, int64_t& value) {
  if (!name.starts_with(stage.name)) return false;
  name.remove_prefix(stage.name.size());
  value = 0;
  if (name.empty()) return true;
  if (stage.outputs() == 1 || !name.starts_with(".v")) return false;
  const auto* const end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data() + 2, end, value);
  return parsed.ec == std::errc() && parsed.ptr == end && value >= 0 && value++ < static_cast<int64_t>(stage.outputs());
}

/// Resolves the variables of the expression `root` to the axes of `stage` and its loads to stages of the same name
/// before `stage`, the last of them if several. Throws DataError where a name is unknown.
void resolve_names(ComputeDag& dag, size_t stage, int32_t root) {
  auto& node = dag.expressions.node(root);
  const DagStage& reader = dag.stages[stage];
  if (node.kind == Kind::variable) {
    const std::string& name = dag.expressions.name(root);
    for (size_t i = 0; i < reader.axis_count(); ++i) {
      if (reader.axis(i).name == name) node.target = static_cast<int32_t>(i);
    }
    if (node.target < 0)
      fail(dag, stage, fmt::format("variable {}, expected one of {}", name, fmt::join(axis_names(reader), ", ")));
  } else if (node.kind == Kind::load) {
    const std::string& name = dag.expressions.name(root);
    for (size_t i = 0; i < stage; ++i) {
      int64_t value = 0;
      if (!reads_stage(name, dag.stages[i], value)) continue;
      node.target = static_cast<int32_t>(i);
      node.value = value;
    }
    if (node.target < 0) fail(dag, stage, fmt::format("reads {}, expected a stage before it", name));
  }
  for (uint32_t i = 0; i < dag.expressions.node(root).children; ++i)
    resolve_names(dag, stage, dag.expressions.child(root, i));
}

}  // namespace

size_t ComputeDag::memories() const {
  size_t most = 1;
  for (const DagStage& stage : stages) most = std::max(most, stage.outputs());
  return most * stages.size();
}

void collect_loads(const ExpressionTree& tree, int32_t root, std::vector<int32_t>& loads) {
  for (const int32_t child : tree.children(root)) collect_loads(tree, child, loads);
  if (tree.node(root).kind == Kind::load) loads.push_back(root);
}

void validate(const ComputeDag& dag) {
  if (dag.stages.empty() || dag.stages.size() > kMostDagStages)
    throw DataError("{} stages, expected 1 to {}", dag.stages.size(), kMostDagStages);
  for (size_t i = 0; i < dag.stages.size(); ++i) {
    const DagStage& stage = dag.stages[i];
    if (stage.shape.size() > kMostAxes)
      fail(dag, i, fmt::format("rank {}, expected at most {}", stage.shape.size(), kMostAxes));
    for (const int64_t extent : stage.shape) {
      if (extent < 1 || extent > kLargestExtent)
        fail(dag, i, fmt::format("shape with {}, expected 1 to {}", extent, kLargestExtent));
    }
    if (stage.types.empty() || stage.types.size() > kMostOutputs)
      fail(dag, i, fmt::format("{} tensors, expected 1 to {}", stage.types.size(), kMostOutputs));
    if (stage.input) {
      if (stage.axis_count() > 0 || !stage.reads.empty()) fail(dag, i, "an input with axes or reads");
      continue;
    }
    check_axes(dag, i);
    for (const DagRead& read : stage.reads) {
      if (read.stage < 0 || static_cast<size_t>(read.stage) >= i)
        fail(dag, i, fmt::format("reads stage {}, expected a stage before it", read.stage));
      const DagStage& source = dag.stages[static_cast<size_t>(read.stage)];
      if (read.output < 0 || static_cast<size_t>(read.output) >= source.outputs())
        fail(dag, i,
             fmt::format("reads tensor {} of {}, expected 0 to {}", read.output, source.name, source.outputs() - 1));
      if (read.indices.size() != source.shape.size())
        fail(dag, i,
             fmt::format("{} indices of {}, expected {}", read.indices.size(), source.name, source.shape.size()));
      for (const int32_t index : read.indices) check_targets(dag, i, index, stage.axis_count());
    }
    if (!stage.bodies.empty() && stage.bodies.size() != stage.outputs())
      fail(dag, i, fmt::format("{} bodies, expected {}", stage.bodies.size(), stage.outputs()));
    for (const int32_t body : stage.bodies) check_targets(dag, i, body, stage.axis_count());
    if (!stage.combine.empty() && stage.combine.size() != stage.outputs())
      fail(dag, i, fmt::format("combine has {} results, expected {}", stage.combine.size(), stage.outputs()));
    for (const int32_t result : stage.combine) {
      std::vector<int32_t> loads;
      collect_loads(dag.expressions, result, loads);
      if (!loads.empty()) fail(dag, i, "combine reads a stage, expected arithmetic of its variables");
      check_targets(dag, i, result, 2 * stage.outputs());
    }
  }
}

namespace {

/// ` += body`, as TVM prints tensor `k` of a stage: of a tuple the first body stands for all.
std::string assignment(const ComputeDag& dag, const DagStage& stage, size_t k, std::span<const std::string> axes,
                       std::span<const std::string> stages) {
  const auto body = [&](size_t i) {
    return stage.bodies.empty() ? stage.body_text : to_text(dag.expressions, stage.bodies[i], axes, stages);
  };
  std::string_view combiner = stage.combiner;
  if (!stage.combine.empty()) {
    const int32_t result = stage.combine[k];
    const Kind kind = dag.expressions.node(result).kind;
    if (kind == Kind::select)
      return fmt::format(" {}= ({},{})", to_text(dag.expressions, result, stage.operands), body(0), body(1));
    combiner = kind == Kind::add ? "sum" : kind == Kind::maximum ? "max" : kind == Kind::minimum ? "min" : "tuple";
    if (combiner == "tuple") return "reduce" + to_text(dag.expressions, result, stage.operands);
  }
  if (combiner == "sum") return " += " + body(0);
  if (combiner == "max" || combiner == "min") return fmt::format(" {}= {}", combiner, body(0));
  return " = " + body(stage.bodies.empty() ? 0 : k);
}

}  // namespace

std::string to_text(const ComputeDag& dag) {
  std::vector<std::string> stage_names;
  for (const DagStage& stage : dag.stages) stage_names.push_back(stage.name);
  std::string out;
  for (const DagStage& stage : dag.stages) {
    if (stage.input) {
      out += fmt::format("{} = PLACEHOLDER [{}]\n", stage.name, fmt::join(stage.shape, ", "));
      continue;
    }
    const auto names = axis_names(stage);
    const auto spatial = std::vector(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(stage.axes.size()));
    for (size_t k = 0; k < stage.outputs(); ++k) {
      out += fmt::format("{}({}){}", stage.name, fmt::join(spatial, ", "),
                         stage.outputs() > 1 ? fmt::format(".v{}", k) : "");
      out += assignment(dag, stage, k, names, stage_names) + '\n';
    }
  }
  return out;
}

namespace {

using simdjson::dom::element;

/// Appends scalars in their order; arrays nest no deeper than simdjson's parser allows.
void flatten(const element& value, std::string& out) {
  simdjson::dom::array items;
  if (value.get(items) == simdjson::SUCCESS) {
    for (const element item : items) flatten(item, out);
    return;
  }
  out += ',';
  out += simdjson::minify(value);
}

}  // namespace

WorkloadKey parse_workload_key(std::string_view text) {
  constexpr size_t kDepth = 32, kHashDigits = 32;
  const auto fail = [&](std::string_view found) {
    return DataError("workload key '{}': {}, expected [\"function or md5\", arguments...]", text.substr(0, 80), found);
  };
  simdjson::dom::parser parser;
  if (parser.allocate(std::max<size_t>(text.size(), 64), kDepth) != simdjson::SUCCESS) throw fail("too long");
  element root;
  if (const auto error = parser.parse(text.data(), text.size()).get(root)) throw fail(simdjson::error_message(error));
  simdjson::dom::array list;
  if (root.get(list) != simdjson::SUCCESS || list.size() == 0) throw fail("no list");
  WorkloadKey key;
  std::string_view name;
  if (list.at(0).get(name) != simdjson::SUCCESS) throw fail("no name");
  key.is_hash = name.size() == kHashDigits && name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  key.flat = name;
  auto argument = list.begin();
  for (++argument; argument != list.end(); ++argument) flatten(*argument, key.flat);
  return key;
}

namespace {

using simdjson::dom::array;

constexpr std::string_view kInputKind =
    "place"
    "holder";  // TVM's word

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
    dag.expressions.node(root).target = static_cast<int32_t>(found - operands.begin());
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
    if (!reads_stage(dag.expressions.name(load), dag.stages[static_cast<size_t>(read.stage)], value)) continue;
    by_name = &read;
    std::vector<std::string> indices;
    for (const int32_t index : read.indices) indices.push_back(to_text(dag.expressions, index));
    if (text == fmt::format("{}[{}]", dag.expressions.name(load), fmt::join(indices, ", "))) return by_name;
  }
  return by_name;
}

/// Parts between commas that stand in no brackets.
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
      const DagStage& source = dag.stages[static_cast<size_t>(reader.reads[i].stage)];
      in_order = reads_stage(dag.expressions.name(loads[i]), source, dag.expressions.node(loads[i]).value);
    }
    for (size_t i = 0; i < loads.size(); ++i) {
      auto& node = dag.expressions.node(loads[i]);
      const DagRead* read = in_order ? &reader.reads[i] : access_of_load(dag, reader, loads[i]);
      if (read == nullptr) continue;
      node.target = read->stage;
      reads_stage(dag.expressions.name(loads[i]), dag.stages[static_cast<size_t>(node.target)], node.value);
    }
    if (in_order) {
      reader.reads.resize(loads.size());
      for (size_t i = 0; i < loads.size(); ++i) {
        reader.reads[i].output = static_cast<int32_t>(dag.expressions.output(loads[i]));
        reader.reads[i].body = of_body[i];
      }
    }
    reader.bodies = std::move(bodies);
  } catch (const DataError&) {
    reader.bodies.clear();  // its reads are known, so it can be replayed
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
    if (source < 0 || static_cast<size_t>(source) >= stage)
      throw DataError("reads: stage {}, expected one before it", source);
    read.stage = static_cast<int32_t>(source);
    const auto output = field_or<int64_t>(item, "output", 0);
    const auto& read_from = dag.stages[static_cast<size_t>(source)];
    if (output < 0 || static_cast<size_t>(output) >= read_from.outputs())
      throw DataError("reads: tensor {} of {}, expected 0 to {}", output, read_from.name, read_from.outputs() - 1);
    read.output = static_cast<int32_t>(output);
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
  // Tables of earlier versions have no dtypes.
  if (types.empty()) types.assign(split_tuple(reader.body_text).size(), reader.types.front());
  reader.types = std::move(types);
  read_bodies(dag, stage);
  read_combine(object, dag, stage);
}

void read_stage(const element& object, ComputeDag& dag) {
  const size_t stage = dag.stages.size();
  const auto id = field<int64_t>(object, "id", "an integer");
  if (id != static_cast<int64_t>(stage)) throw DataError("id {}, expected {}", id, stage);
  dag.stages.emplace_back();
  DagStage& added = dag.stages.back();
  added.name = field<std::string_view>(object, "name", "a name");
  added.types = {std::string(field_or<std::string_view>(object, "dtype", ""))};
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
  return dag;
}

void DagTable::add(std::shared_ptr<const ComputeDag> dag) {
  const WorkloadKey key = parse_workload_key(dag->workload_key);
  if (!by_key_.emplace(dag->workload_key, dags_.size()).second)
    throw DataError("workload key {}: occurs twice", dag->workload_key);
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

DagTable::DagTable(const std::filesystem::path& file) {
  LineSource lines(file);
  while (const auto line = lines.next()) {
    if (line->text.empty() || line->text[0] == '#') continue;
    try {
      if (line->too_long) throw DataError("longer than expected of a compute DAG");
      add(std::make_shared<const ComputeDag>(parse_compute_dag(line->text)));
    } catch (const DataError& error) {
      throw DataError("{}:{}: {}", file.string(), lines.line_number(), error.what());
    }
  }
  if (dags_.empty()) throw DataError("{}: no line, expected compute DAGs", file.string());
}

}  // namespace foretime::data
