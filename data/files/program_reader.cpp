#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "data/files/npz_groups.h"
#include "data/graphs/program_nodes.h"
#include "data/graphs/schema.h"

namespace foretime::data {
namespace {

using Columns = ProgramColumns;

const ShapeRule kAnyList{{kAnySize}, "(any,)"};
constexpr int64_t kLoopKinds = 5;

/// Replaces indices into a table of names that the file holds by ours.
template <class Index, class Out, class Lookup>
std::vector<Out> translate(const NpzReader& file, const std::string& entry, const std::string& table, int64_t nodes,
                           Lookup&& lookup) {
  const auto names = file.read_text(table, kAnyList);
  std::vector<Out> ours;
  for (const auto& name : names) ours.push_back(static_cast<Out>(lookup(name)));
  const auto indices = file.read<Index>(entry, {{nodes}, "(nodes,)"});
  std::vector<Out> out(indices.size());
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] >= ours.size())
      throw DataError(fmt::format("{}: {} at node {}, but {} has {} names", file.origin(entry), indices[i], i, table,
                                  names.size()));
    out[i] = ours[indices[i]];
  }
  return out;
}

std::vector<int64_t> read_graph_ptr(const NpzReader& file) {
  auto graph_ptr = file.read<int64_t>("graph_ptr", {{kAnySize}, "(graphs + 1,)"});
  if (graph_ptr.size() < 2 || graph_ptr[0] != 0)
    throw DataError(fmt::format("{}: {} values, expected two or more, the first one 0", file.origin("graph_ptr"),
                                graph_ptr.size()));
  for (size_t g = 1; g < graph_ptr.size(); ++g) {
    if (graph_ptr[g] <= graph_ptr[g - 1])
      throw DataError(fmt::format("{}: {} after {}, expected ascending values (no graph is empty)",
                                  file.origin("graph_ptr"), graph_ptr[g], graph_ptr[g - 1]));
  }
  if (graph_ptr.back() > std::numeric_limits<int32_t>::max())
    throw DataError(fmt::format("{}: {} nodes, expected at most 2^31 - 1", file.origin("graph_ptr"), graph_ptr.back()));
  return graph_ptr;
}

ProgramNodes read_trees(const NpzReader& file, int64_t nodes) {
  const ShapeRule rule{{nodes}, "(nodes,)"};
  ProgramNodes trees;
  trees.type = translate<uint8_t, uint8_t>(file, "node_type", "type_names", nodes, tir_type_id);
  trees.call_op = translate<uint8_t, uint8_t>(file, "call_op", "call_op_names", nodes, call_op_index);
  trees.parent = file.read<int32_t>("parent", rule);
  trees.extent = file.read<int64_t>("extent", rule);
  trees.loop_kind = file.read<int8_t>("loop_kind", rule);
  trees.value = file.read<double>("value", rule);
  trees.variable = file.read<int32_t>("variable", rule);
  trees.buffer = file.read<int32_t>("buffer", rule);
  trees.buffer_elements = file.read<int64_t>("buffer_elements", rule);
  return trees;
}

void check_node(const NpzReader& file, const ProgramNodes& m, size_t i, int64_t position) {
  const auto fail = [&](const char* entry, auto found, const std::string& expected) {
    throw DataError(fmt::format("{}: {} at node {}, expected {}", file.origin(entry), found, i, expected));
  };
  if (position == 0 && m.parent[i] != -1) fail("parent", m.parent[i], "-1: each graph starts with its root");
  if (position > 0 && (m.parent[i] < 0 || m.parent[i] >= position))
    fail("parent", m.parent[i], fmt::format("0 … {}: a parent stands before its child", position - 1));
  static const uint8_t loop = tir_type_id("For"), integer = tir_type_id("IntImm"), real = tir_type_id("FloatImm");
  if (m.extent[i] < 0) fail("extent", m.extent[i], "0 or more");
  if (m.buffer_elements[i] < 0) fail("buffer_elements", m.buffer_elements[i], "0 or more");
  const int lowest = m.type[i] == loop ? 0 : -1;
  if (m.loop_kind[i] < lowest || m.loop_kind[i] >= kLoopKinds)
    fail("loop_kind", static_cast<int>(m.loop_kind[i]), fmt::format("{} … {}", lowest, kLoopKinds - 1));
  if (std::isnan(m.value[i]) && (m.type[i] == integer || m.type[i] == real))
    fail("value", m.value[i], "a number: the node is an immediate");
}

}  // namespace

void describe_program(const NpzReader& file, GroupHeader& header) {
  header.graphs = file.size("graph_ptr", {{kAnySize}, "(graphs + 1,)"}, 0) - 1;
  if (header.graphs < 1) throw DataError(fmt::format("{}: no graphs, expected one or more", file.origin("graph_ptr")));
  header.nodes = file.size("node_type", {{kAnySize}, "(nodes,)"}, 0);
  header.edges = std::max<int64_t>(0, header.nodes - header.graphs);
  header.candidates = header.graphs;
  header.feature_count = Columns::count;
  header.node_type_count = kTirTypes;
}

ProgramNodes read_program_nodes(const NpzReader& file) {
  auto graph_ptr = read_graph_ptr(file);
  ProgramNodes trees = read_trees(file, graph_ptr.back());
  for (size_t g = 0; g + 1 < graph_ptr.size(); ++g) {
    for (int64_t i = graph_ptr[g]; i < graph_ptr[g + 1]; ++i) {
      check_node(file, trees, static_cast<size_t>(i), i - graph_ptr[g]);
    }
  }
  trees.graph_ptr = std::move(graph_ptr);
  return trees;
}

Group read_program(const NpzReader& file, const Featurizer* featurizer) {
  Group group;
  group.kind = CandidateKind::program;
  group.unit = RuntimeUnit::seconds;
  ProgramNodes trees = read_program_nodes(file);
  group.candidates = trees.graphs();
  const ShapeRule rule{{group.candidates}, "(graphs,)"};
  auto runtimes = file.read<double>("runtime", rule);
  check_runtimes(runtimes, false, file.origin("runtime"));
  if (file.has("flop")) {
    auto flops = file.read<double>("flop", rule);
    for (size_t g = 0; g < flops.size(); ++g) {
      if (!std::isfinite(flops[g]) || flops[g] < 0.0)
        throw DataError(fmt::format("{}: {} at graph {}, expected 0 or more", file.origin("flop"), flops[g], g));
    }
    group.flops = std::move(flops);
  }
  group.candidate_ids = file.read_text("id", rule);
  group.runtimes = std::move(runtimes);
  group.graphs =
      featurizer ? featurizer->graphs(std::move(trees), group.flops.span()) : program_graphs(std::move(trees));
  return group;
}

}  // namespace foretime::data
