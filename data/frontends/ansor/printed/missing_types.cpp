#include "base/error.h"
#include "data/frontends/ansor/printed/workload_facts.h"

namespace foretime::data {
namespace {

using Kind = ExpressionKind;

/// A cast of a whole input to an integer says that it is none of the usual floats.
void expect_types(std::span<const PrintedStage> stages, const PrintedHints& hints, const WorkloadFacts& facts, size_t s,
                  int32_t root) {
  const auto& tree = stages[s].tree;
  const auto children = tree.children(root);
  if (tree.node(root).kind == Kind::cast && tree.name(root).find("int") != std::string::npos &&
      tree.node(children[0]).kind == Kind::load) {
    for (size_t l = 0; l < stages[s].loads.size(); ++l) {
      const size_t source = facts.reads[s][l];
      if (stages[s].loads[l].node == children[0] && stages[source].input && !hints.types.contains(stages[source].name))
        throw DataError(
            "input {} is cast to {}, so it is of another type, which is not printed; write it above, as in # {}:int8",
            stages[source].name, tree.name(root), stages[source].name);
    }
  }
  for (const int32_t child : children) expect_types(stages, hints, facts, s, child);
}

}  // namespace

std::string type_of(std::span<const PrintedStage> stages, const WorkloadFacts& facts, size_t s, int32_t root) {
  const auto& tree = stages[s].tree;
  const auto& node = tree.node(root);
  if (node.kind == Kind::load) {
    for (size_t l = 0; l < stages[s].loads.size(); ++l) {
      if (stages[s].loads[l].node == root) return facts.types[facts.reads[s][l]];
    }
  }
  if (node.kind == Kind::cast) return tree.name(root);
  if (node.kind == Kind::real) {
    const auto& literal = tree.name(root);
    return literal.ends_with('h') ? "float16" : literal.ends_with('f') ? "float32" : "float64";
  }
  if (node.kind == Kind::integer || node.kind == Kind::variable) return "int32";
  if (is_condition(node.kind)) return "bool";
  const auto children = tree.children(root);
  const bool chooses =
      node.kind == Kind::select || (node.kind == Kind::call && tree.name(root).ends_with("if_then_else"));
  if (children.empty()) return "float32";
  const auto first = type_of(stages, facts, s, children[chooses ? 1 : 0]);
  // A whole number stands without its type.
  return first == "int32" && children.size() > 1 ? type_of(stages, facts, s, children[chooses ? 2 : 1]) : first;
}

void find_types(std::span<const PrintedStage> stages, const PrintedHints& hints, WorkloadFacts& facts) {
  facts.types.assign(stages.size(), "float32");
  for (size_t s = 0; s < stages.size(); ++s) {
    for (size_t l = 0; l < stages[s].loads.size(); ++l) {
      if (stages[s].loads[l].index) facts.types[facts.reads[s][l]] = "int32";
    }
  }
  for (size_t s = 0; s < stages.size(); ++s) {
    if (stages[s].input) {
      if (const auto said = hints.types.find(stages[s].name); said != hints.types.end()) facts.types[s] = said->second;
      continue;
    }
    for (const int32_t root : stages[s].roots) expect_types(stages, hints, facts, s, root);
    facts.types[s] = type_of(stages, facts, s, stages[s].roots.front());
  }
}

}  // namespace foretime::data
