#include "data/frontends/ansor/dag/compute_dag.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"

namespace foretime::data {
namespace {

using Kind = ExpressionKind;

[[noreturn]] void fail(const ComputeDag& dag, size_t stage, const std::string& message) {
  throw DataError(fmt::format("stage {} ({}): {}", stage, dag.stages[stage].name, message));
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
    const size_t rank = dag.stages[static_cast<size_t>(node.target)].shape.size();
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

}  // namespace

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
      if (dag.stages[i].name == name) node.target = static_cast<int32_t>(i);
    }
    if (node.target < 0) fail(dag, stage, fmt::format("reads {}, expected a stage before it", name));
  }
  for (uint32_t i = 0; i < dag.expressions.node(root).children; ++i)
    resolve_names(dag, stage, dag.expressions.child(root, i));
}

void collect_loads(const ExpressionTree& tree, int32_t root, std::vector<int32_t>& loads) {
  for (const int32_t child : tree.children(root)) collect_loads(tree, child, loads);
  if (tree.node(root).kind == Kind::load) loads.push_back(root);
}

void validate(const ComputeDag& dag) {
  if (dag.stages.empty() || dag.stages.size() > kMostDagStages)
    throw DataError(fmt::format("{} stages, expected 1 to {}", dag.stages.size(), kMostDagStages));
  for (size_t i = 0; i < dag.stages.size(); ++i) {
    const DagStage& stage = dag.stages[i];
    if (stage.shape.size() > kMostAxes)
      fail(dag, i, fmt::format("rank {}, expected at most {}", stage.shape.size(), kMostAxes));
    for (const int64_t extent : stage.shape) {
      if (extent < 1 || extent > kLargestExtent)
        fail(dag, i, fmt::format("shape with {}, expected 1 to {}", extent, kLargestExtent));
    }
    if (stage.input) {
      if (stage.axis_count() > 0 || !stage.reads.empty()) fail(dag, i, "an input with axes or reads");
      continue;
    }
    check_axes(dag, i);
    for (const DagRead& read : stage.reads) {
      if (read.stage < 0 || static_cast<size_t>(read.stage) >= i)
        fail(dag, i, fmt::format("reads stage {}, expected a stage before it", read.stage));
      const DagStage& source = dag.stages[static_cast<size_t>(read.stage)];
      if (read.indices.size() != source.shape.size())
        fail(dag, i,
             fmt::format("{} indices of {}, expected {}", read.indices.size(), source.name, source.shape.size()));
      for (const int32_t index : read.indices) check_targets(dag, i, index, stage.axis_count());
    }
    if (stage.body >= 0) check_targets(dag, i, stage.body, stage.axis_count());
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
    const auto names = axis_names(stage);
    const auto spatial = std::vector(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(stage.axes.size()));
    const std::string body =
        stage.body >= 0 ? to_text(dag.expressions, stage.body, names, stage_names) : stage.body_text;
    std::string_view assignment = "=";
    if (stage.combiner == "sum") assignment = "+=";
    if (stage.combiner == "max") assignment = "max=";
    if (stage.combiner == "min") assignment = "min=";
    out += fmt::format("{}({}) {} {}\n", stage.name, fmt::join(spatial, ", "), assignment, body);
  }
  return out;
}

}  // namespace foretime::data
