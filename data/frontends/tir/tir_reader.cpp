#include "data/frontends/tir/tir_reader.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "data/frontends/tir/tir_unfolder.h"

namespace foretime::data {
namespace {

/// The PrimFuncs of an IRModule, or the root itself where it is an expression, a statement or a function.
std::vector<int64_t> tree_roots(const TirDocument& document, const std::string& origin) {
  const int64_t root = document.root();
  const TirType& type = document.type(root);
  if (type.kind == TirClass::tree || type.kind == TirClass::variable) return {root};
  const auto refuse = [&](const std::string& found) {
    throw DataError("{}: {}, expected a tir.PrimFunc or an IRModule that holds some", origin, found);
  };
  if (type.key != "IRModule")
    refuse(
        fmt::format("the root is node {} ({})", root, type.kind == TirClass::unknown ? document.text(root) : type.key));
  const int64_t functions = document.field(root, 0);
  if (functions < 0 || functions >= document.size() || document.type(functions).kind != TirClass::map)
    refuse(fmt::format("node {} (IRModule): functions are no Map", root));
  const auto entries = document.data(functions);
  const size_t stride = document.has_string_keys(functions) ? 1 : 2;
  std::vector<int64_t> roots;
  for (size_t i = stride - 1; i < entries.size(); i += stride) {
    const int64_t function = entries[i];
    if (function < 0 || function >= document.size()) refuse(fmt::format("node {} (Map): {}", functions, function));
    if (document.type(function).key == "tir.PrimFunc") roots.push_back(function);
  }
  if (roots.empty()) refuse(fmt::format("node {} (IRModule): no tir.PrimFunc", root));
  return roots;
}

}  // namespace

TirReader::TirReader(const TirLimits& limits) : unfolder_(std::make_unique<TirUnfolder>(limits)) {}
TirReader::~TirReader() = default;

int64_t TirReader::read(std::string_view text, const std::string& origin, ProgramNodes& trees) {
  document_.parse(text, origin);
  unfolder_->start(document_, origin);
  const size_t graphs = trees.graph_ptr.size(), nodes = trees.nodes();
  const auto roots = tree_roots(document_, origin);
  int64_t deepest = 0;
  try {
    for (const int64_t root : roots) deepest = std::max(deepest, unfolder_->unfold(root, trees));
  } catch (...) {
    trees.graph_ptr.resize(graphs);
    trees.visit_arrays([&](auto& values) { values.resize(nodes); });
    throw;
  }
  ++summary_.documents;
  ++summary_.versions[document_.version()];
  summary_.dag_nodes += document_.size();
  summary_.deepest_tree = std::max(summary_.deepest_tree, deepest);
  for (const auto& [key, number] : unfolder_->unknown_types()) summary_.unknown_types[key] += number;
  count(trees, graphs - 1);
  return roots.size();
}

void TirReader::count(const ProgramNodes& trees, int64_t first_tree) {
  static const uint8_t call = tir_type_id("Call");
  for (size_t g = first_tree; g + 1 < trees.graph_ptr.size(); ++g) {
    ++summary_.trees;
    summary_.largest_tree = std::max(summary_.largest_tree, trees.graph_ptr[g + 1] - trees.graph_ptr[g]);
  }
  for (size_t i = trees.graph_ptr[first_tree]; i < trees.nodes(); ++i) {
    ++summary_.tree_nodes;
    ++summary_.node_types[trees.type[i]];
    if (trees.type[i] == call) ++summary_.call_ops[trees.call_op[i]];
  }
}

}  // namespace foretime::data
