// DAGs as TVM prints them.
#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "base/error.h"
#include "data/frontends/ansor/dag/compute_dag.h"

namespace foretime::data {
namespace {

using Kind = ExpressionKind;

constexpr std::string_view kInput = " = PLACEHOLDER ";

std::vector<std::string_view> split(std::string_view text, std::string_view by) {
  std::vector<std::string_view> parts;
  if (text.empty()) return parts;
  for (size_t at = 0; at != std::string_view::npos;) {
    const size_t next = text.find(by, at);
    parts.push_back(text.substr(at, next == std::string_view::npos ? next : next - at));
    at = next == std::string_view::npos ? next : next + by.size();
  }
  return parts;
}

std::vector<int64_t> read_shape(std::string_view text) {
  if (!text.starts_with('[') || !text.ends_with(']'))
    throw DataError("'{}', expected a shape in brackets", text.substr(0, 60));
  std::vector<int64_t> shape;
  for (const auto part : split(text.substr(1, text.size() - 2), ", ")) {
    int64_t extent = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), extent);
    if (error != std::errc() || end != part.data() + part.size() || extent < 1)
      throw DataError("shape {}, expected positive integers", text.substr(0, 60));
    shape.push_back(extent);
  }
  return shape;
}

/// Variables that are no axis are those of the reduction, in the order in which the body has them: so TVM's own
/// operators define them.
void find_reduce_axes(const ExpressionTree& tree, int32_t root, DagStage& stage) {
  if (tree.node(root).kind == Kind::variable) {
    const std::string& name = tree.name(root);
    for (size_t i = 0; i < stage.axis_count(); ++i) {
      if (stage.axis(i).name == name) return;
    }
    stage.reduce_axes.push_back({.name = name});
  }
  for (const int32_t child : tree.children(root)) find_reduce_axes(tree, child, stage);
}

/// `name(i, j) += body`.
void read_compute(std::string_view line, ComputeDag& dag) {
  constexpr std::pair<std::string_view, std::string_view> kAssignments[] = {
      {" = ", ""}, {" += ", "sum"}, {" max= ", "max"}, {" min= ", "min"}};
  const size_t open = line.find('('), close = line.find(')');
  const size_t number = dag.stages.size() - 1;
  DagStage& stage = dag.stages.back();
  if (open == std::string_view::npos || close == std::string_view::npos || close < open)
    throw DataError("expected NAME(axes) = body, or NAME = PLACEHOLDER [shape]");
  stage.name = line.substr(0, open);
  for (const auto axis : split(line.substr(open + 1, close - open - 1), ", "))
    stage.axes.push_back({.name = std::string(axis)});
  const auto rest = line.substr(close + 1);
  const auto* found =
      std::ranges::find_if(kAssignments, [&](const auto& assignment) { return rest.starts_with(assignment.first); });
  if (found == std::end(kAssignments)) throw DataError("'{}', expected =, +=, max= or min=", rest.substr(0, 20));
  stage.combiner = found->second;
  stage.body_text = rest.substr(found->first.size());
  stage.body = parse_expression(stage.body_text, dag.expressions);
  if (!stage.combiner.empty()) find_reduce_axes(dag.expressions, stage.body, stage);
  resolve_names(dag, number, stage.body);
  std::vector<int32_t> loads;
  collect_loads(dag.expressions, stage.body, loads);
  for (const int32_t load : loads) {
    const auto indices = dag.expressions.children(load);
    stage.reads.push_back({dag.expressions.node(load).target, {indices.begin(), indices.end()}});
  }
  stage.shape.assign(stage.axes.size(), 0);
}

/// Extents of axes and shapes, 0 while they are unknown.
class Extents {
 public:
  explicit Extents(ComputeDag& dag) : dag_(dag) {}

  void set_outputs(const std::vector<std::vector<int64_t>>& shapes) {
    size_t outputs = 0;
    for (const DagStage& stage : dag_.stages) outputs += stage.output;
    if (shapes.size() < outputs) return;
    size_t next = shapes.size() - outputs;
    for (size_t i = 0; i < dag_.stages.size(); ++i) {
      if (!dag_.stages[i].output) continue;
      const auto& shape = shapes[next++];
      if (shape.size() != dag_.stages[i].shape.size())
        throw DataError("stage {}: {} axes, but the workload key has {}", dag_.stages[i].name,
                        dag_.stages[i].shape.size(), shape.size());
      for (size_t d = 0; d < shape.size(); ++d) set_dimension(i, d, shape[d]);
    }
  }

  /// Carries what is known over accesses, until nothing is new.
  void spread() {
    do {
      changed_ = false;
      for (size_t i = dag_.stages.size(); i-- > 0;) {
        for (const DagRead& read : dag_.stages[i].reads) {
          for (size_t d = 0; d < read.indices.size(); ++d) over(i, read, d);
        }
      }
    } while (changed_);
  }

  void check() const {
    for (const DagStage& stage : dag_.stages) {
      for (size_t i = 0; i < stage.axis_count(); ++i) {
        if (stage.axis(i).extent == 0)
          throw DataError("stage {}: the text does not say how long axis {} is, expected it as a line of dags.jsonl",
                          stage.name, stage.axis(i).name);
      }
    }
  }

 private:
  void over(size_t reader, const DagRead& read, size_t dimension) {
    const auto& node = dag_.expressions.node(read.indices[dimension]);
    if (node.kind != Kind::variable) return;
    const auto source = static_cast<size_t>(read.stage);
    if (dimension >= dag_.stages[source].shape.size())
      throw DataError("stage {}: too many indices of {}", dag_.stages[reader].name, dag_.stages[source].name);
    const auto axis = static_cast<size_t>(node.target);
    set_dimension(source, dimension, dag_.stages[reader].axis(axis).extent);
    set_axis(reader, axis, dag_.stages[source].shape[dimension]);
  }

  void set(int64_t& known, int64_t extent, const std::string& what) {
    if (extent == 0 || known == extent) return;
    if (known != 0)
      throw DataError("{}: both {} and {} long by its accesses, expected it as a line of dags.jsonl", what, known,
                      extent);
    known = extent;
    changed_ = true;
  }

  void set_dimension(size_t stage, size_t dimension, int64_t extent) {
    DagStage& changed = dag_.stages[stage];
    set(changed.shape[dimension], extent, fmt::format("stage {}: dimension {}", changed.name, dimension));
    if (!changed.input) changed.axes[dimension].extent = changed.shape[dimension];
  }

  void set_axis(size_t stage, size_t axis, int64_t extent) {
    DagStage& changed = dag_.stages[stage];
    if (axis < changed.axes.size()) return set_dimension(stage, axis, extent);
    DagAxis& reduced = changed.reduce_axes[axis - changed.axes.size()];
    set(reduced.extent, extent, fmt::format("stage {}: axis {}", changed.name, reduced.name));
  }

  ComputeDag& dag_;
  bool changed_ = false;
};

}  // namespace

ComputeDag parse_dag_text(std::string_view text, std::string_view workload_key) {
  ComputeDag dag;
  dag.workload_key = workload_key;
  for (const auto line : split(text, "\n")) {
    if (line.empty()) continue;
    const size_t number = dag.stages.size();
    if (number == kMostDagStages) throw DataError("more than {} stages", kMostDagStages);
    dag.stages.emplace_back();
    try {
      if (const size_t input = line.find(kInput); input != std::string_view::npos) {
        DagStage& stage = dag.stages.back();
        stage.name = line.substr(0, input);
        stage.input = true;
        stage.shape = read_shape(line.substr(input + kInput.size()));
      } else {
        read_compute(line, dag);
      }
    } catch (const DataError& error) {
      throw DataError("line {} of the DAG: {}", number + 1, error.what());
    }
    for (size_t i = 0; i < number; ++i) {
      if (dag.stages[i].name == dag.stages[number].name)
        throw DataError("two stages {}, expected it as a line of dags.jsonl", dag.stages[i].name);
    }
  }
  for (DagStage& stage : dag.stages) stage.output = !stage.input;
  for (const DagStage& stage : dag.stages) {
    for (const DagRead& read : stage.reads) dag.stages[static_cast<size_t>(read.stage)].output = false;
  }
  Extents extents(dag);
  extents.set_outputs(parse_workload_key(workload_key).shapes);
  extents.spread();
  extents.check();
  validate(dag);
  return dag;
}

}  // namespace foretime::data
