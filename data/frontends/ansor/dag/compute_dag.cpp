#include "data/frontends/ansor/dag/compute_dag.h"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"

namespace foretime::data {
namespace {

using Kind = ExpressionKind;

[[noreturn]] void fail(const ComputeDag& dag, size_t stage, const std::string& message) {
  throw DataError("stage {} ({}): {}", stage, dag.stages[stage].name, message);
}

/// Variables point to axes below `axes`, loads to stages before `stage`.
void check_targets(const ComputeDag& dag, size_t stage, int32_t root, size_t axes) {
  const auto& node = dag.expressions.node(root);
  if (node.kind == Kind::variable && (node.target < 0 || std::cmp_greater_equal(node.target, axes)))
    fail(dag, stage, fmt::format("variable {}, expected an axis of the stage", dag.expressions.name(root)));
  if (node.kind == Kind::load) {
    if (node.target < 0 || std::cmp_greater_equal(node.target, stage))
      fail(dag, stage, fmt::format("reads {}, expected a stage before it", dag.expressions.name(root)));
    const DagStage& source = dag.stages[node.target];
    const size_t rank = source.shape.size();
    if (dag.expressions.output(root) >= source.outputs())
      fail(dag, stage, fmt::format("reads {}, but there are only {}", dag.expressions.name(root), source.outputs()));
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
    fail(dag, stage, fmt::format("{} axes, expected {} as in its shape", checked.axes.size(), checked.shape.size()));
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

/// Returns ` += body`, as TVM prints tensor `k` of a stage; for a tuple it prints only the first body.
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

std::vector<std::string> DagStage::axis_names() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < axis_count(); ++i) names.push_back(axis(i).name);
  return names;
}

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
    for (const int64_t extent : stage.shape)
      if (extent < 1 || extent > kLargestExtent)
        fail(dag, i, fmt::format("shape with {}, expected 1 to {}", extent, kLargestExtent));
    if (stage.types.empty() || stage.types.size() > kMostOutputs)
      fail(dag, i, fmt::format("{} tensors, expected 1 to {}", stage.types.size(), kMostOutputs));
    if (stage.input) {
      if (stage.axis_count() > 0 || !stage.reads.empty()) fail(dag, i, "an input with axes or reads, expected none");
      continue;
    }
    check_axes(dag, i);
    for (const DagRead& read : stage.reads) {
      if (read.stage < 0 || std::cmp_greater_equal(read.stage, i))
        fail(dag, i, fmt::format("reads stage {}, expected a stage before it", read.stage));
      const DagStage& source = dag.stages[read.stage];
      if (read.output < 0 || std::cmp_greater_equal(read.output, source.outputs()))
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

std::string to_text(const ComputeDag& dag) {
  std::vector<std::string> stage_names;
  for (const DagStage& stage : dag.stages) stage_names.push_back(stage.name);
  std::string out;
  for (const DagStage& stage : dag.stages) {
    if (stage.input) {
      out += fmt::format("{} = PLACEHOLDER [{}]\n", stage.name, fmt::join(stage.shape, ", "));
      continue;
    }
    const auto names = stage.axis_names();
    const auto spatial = std::vector(names.begin(), names.begin() + stage.axes.size());
    for (size_t k = 0; k < stage.outputs(); ++k) {
      out += fmt::format("{}({}){}", stage.name, fmt::join(spatial, ", "),
                         stage.outputs() > 1 ? fmt::format(".v{}", k) : "");
      out += assignment(dag, stage, k, names, stage_names) + '\n';
    }
  }
  return out;
}

}  // namespace foretime::data
