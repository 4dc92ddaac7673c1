#include "data/frontends/ansor/printed/printed_stage.h"

#include <algorithm>
#include <charconv>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "data/frontends/ansor/dag/compute_dag.h"
#include "data/frontends/ansor/printed/printed_line.h"

namespace foretime::data {
namespace {

using Kind = ExpressionKind;
using Loads = std::vector<std::pair<int32_t, std::pair<std::vector<int32_t>, bool>>>;

/// Loads in the order of their evaluation, with the conditions of selections around them.
void find_loads(const ExpressionTree& tree, int32_t root, std::vector<int32_t>& guards, bool index, Loads& found) {
  const auto& node = tree.node(root);
  const bool chooses =
      (node.kind == Kind::call && tree.name(root).ends_with("if_then_else")) || node.kind == Kind::select;
  const auto children = tree.children(root);
  for (size_t i = 0; i < children.size(); ++i) {
    const bool guarded = chooses && i == 1 && node.kind == Kind::call;  // select evaluates both
    if (guarded) guards.push_back(children[0]);
    find_loads(tree, children[i], guards, index || node.kind == Kind::load, found);
    if (guarded) guards.pop_back();
  }
  if (node.kind == Kind::load) found.push_back({root, {guards, index}});
}

/// Variables to axes; those that no spatial axis is become reduction axes, in the order in which they come.
void name_axes(ExpressionTree& tree, int32_t root, bool reduces, std::vector<std::string>& names) {
  auto& node = tree.node(root);
  if (node.kind == Kind::variable) {
    const auto found = std::ranges::find(names, tree.name(root));
    if (found == names.end() && !reduces)
      throw DataError("variable {}, expected one of {}", tree.name(root), fmt::join(names, ", "));
    node.target = found - names.begin();
    if (found == names.end()) names.push_back(tree.name(root));
  }
  for (uint32_t i = 0; i < tree.node(root).children; ++i) name_axes(tree, tree.child(root, i), reduces, names);
}

/// The stage whose body a line has: a new one, or the last one, of which it has one tensor more.
PrintedStage& stage_of(const PrintedLine& parts, std::vector<PrintedStage>& stages) {
  const bool reduces = parts.assignment != " = ";
  if (parts.assignment == " select(" || (!parts.tensor.empty() && reduces))
    throw DataError("a reduction with several results, of which TVM prints the first; {}", kWholeTable);
  if (parts.assignment == "reduce") throw DataError("a combiner that TVM does not print; {}", kWholeTable);
  if (parts.tensor.empty() || parts.tensor == ".v0") {
    PrintedStage& added = stages.emplace_back();
    added.name = parts.name;
    added.names = listed_words(parts.axes);
    added.spatial = added.names.size();
    added.combiner = !reduces ? "" : parts.assignment == " += " ? "sum" : parts.assignment == " max= " ? "max" : "min";
  } else if (stages.empty() || stages.back().name != parts.name ||
             parts.tensor != fmt::format(".v{}", stages.back().bodies.size())) {
    throw DataError("{}{}, expected the tensors of a stage one after the other", parts.name, parts.tensor);
  }
  return stages.back();
}

/// Finds the stages that a load of `stage` may read: those before it that have its name and rank.
void resolve(PrintedStage::Load& load, const PrintedStage& stage, std::span<const PrintedStage> before) {
  std::string_view name = stage.tree.name(load.node);
  const uint32_t indices = stage.tree.node(load.node).children;
  if (const size_t dot = name.rfind(".v"); dot != std::string_view::npos) {
    const auto digits = name.substr(dot + 2);
    std::from_chars(digits.data(), digits.data() + digits.size(), load.tensor);
    name = name.substr(0, dot);
  }
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i].name == name && before[i].rank() == indices &&
        load.tensor < static_cast<int64_t>(std::max<size_t>(1, before[i].bodies.size())))
      load.stages.push_back(i);
  }
  if (load.stages.empty())
    throw DataError("{} reads {} with {} indices, and no stage before it is that", stage.name,
                    stage.tree.name(load.node), indices);
}

void parse_line(std::string_view line, std::vector<PrintedStage>& stages) {
  if (line.find("..(OMITTED)..") != std::string_view::npos)
    throw DataError("TVM left out the middle of a long expression; {}", kWholeTable);
  if (stages.size() >= kMostDagStages) throw DataError("more than {} stages", kMostDagStages);
  if (const size_t at = line.find(kPrintedInput); at != std::string_view::npos && at == line.find(' ')) {
    const auto shape = line.substr(at + kPrintedInput.size());
    if (!shape.starts_with('[') || !shape.ends_with(']')) throw DataError("a shape, expected [numbers]");
    PrintedStage& input = stages.emplace_back();
    input.name = line.substr(0, at);
    input.input = true;
    input.shape = listed_lengths(shape.substr(1, shape.size() - 2));
    return;
  }
  const auto parts = parts_of(line);
  if (parts.assignment.empty() || parts.name.empty())
    throw DataError("'{}', expected a stage: NAME(AXES) = …, +=, max= or min=, or NAME{}[SHAPE]", line.substr(0, 40),
                    kPrintedInput);
  PrintedStage& stage = stage_of(parts, stages);
  stage.bodies.emplace_back(parts.body);
  stage.roots.push_back(parse_expression(parts.body, stage.tree));
  name_axes(stage.tree, stage.roots.back(), parts.assignment != " = ", stage.names);
  if (stage.names.size() > kMostAxes) throw DataError("more than {} axes", kMostAxes);
  Loads found;
  std::vector<int32_t> guards;
  find_loads(stage.tree, stage.roots.back(), guards, false, found);
  for (auto& [node, rest] : found) {
    auto& load = stage.loads.emplace_back(PrintedStage::Load{.node = node, .guards = rest.first, .index = rest.second});
    resolve(load, stage, std::span(stages).first(stages.size() - 1));
  }
}

}  // namespace

std::vector<PrintedStage> parse_stages(std::string_view text) {
  std::vector<PrintedStage> stages;
  int64_t number = 0;
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    ++number;
    try {
      parse_line(line, stages);
    } catch (const DataError& error) {
      throw DataError("line {}: {}", number, error.what());
    }
  }
  if (stages.empty()) throw DataError("no stage");
  return stages;
}

}  // namespace foretime::data
