#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "data/npz_groups.h"
#include "data/schema.h"

namespace foretime::data {
namespace {

using Columns = ProgramColumns;

const ShapeRule kAnyList{{kAnySize}, "(any,)"};
constexpr int64_t kLoopKinds = 5;
constexpr double kLargestLog = 1024.0;  // log2 of the largest double: what an infinite immediate becomes
constexpr double kDepthScale = 0.1;

/// The members of a file that hold one value a node.
struct Members {
  std::vector<uint8_t> type;  // already ids of tir_type_names()
  std::vector<int32_t> parent;
  std::vector<int64_t> extent, buffer_elements;
  std::vector<int8_t> loop_kind;
  std::vector<double> value;
  std::vector<int32_t> variable, buffer;
  std::vector<int64_t> call_op;  // already columns of call_op_names()
};

double log_of(int64_t count) { return std::log2(1.0 + static_cast<double>(count)); }

double log_of_value(double value) {
  return std::copysign(std::min(kLargestLog, std::log2(1.0 + std::abs(value))), value);
}

/// Replaces indices into a table of names that the file holds by ours.
template <class Index, class Out, class Lookup>
std::vector<Out> translate(const NpzReader& file, const std::string& member, const std::string& table, int64_t nodes,
                           Lookup&& lookup) {
  const auto names = file.read_text(table, kAnyList);
  std::vector<Out> ours;
  for (const auto& name : names) ours.push_back(static_cast<Out>(lookup(name)));
  const auto indices = file.read<Index>(member, {{nodes}, "(nodes,)"});
  std::vector<Out> out(indices.size());
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] >= ours.size())
      throw DataError(fmt::format("{}: {} at node {}, but {} has {} names", file.origin(member), indices[i], i, table,
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

Members read_members(const NpzReader& file, int64_t nodes) {
  const ShapeRule rule{{nodes}, "(nodes,)"};
  Members members;
  members.type = translate<uint8_t, uint8_t>(file, "node_type", "type_names", nodes, tir_type_id);
  members.call_op = translate<uint8_t, int64_t>(file, "call_op", "call_op_names", nodes, call_op_index);
  members.parent = file.read<int32_t>("parent", rule);
  members.extent = file.read<int64_t>("extent", rule);
  members.loop_kind = file.read<int8_t>("loop_kind", rule);
  members.value = file.read<double>("value", rule);
  members.variable = file.read<int32_t>("variable", rule);
  members.buffer = file.read<int32_t>("buffer", rule);
  members.buffer_elements = file.read<int64_t>("buffer_elements", rule);
  return members;
}

void check_node(const NpzReader& file, const Members& m, size_t i, int64_t position) {
  const auto fail = [&](const char* member, auto found, const std::string& expected) {
    throw DataError(fmt::format("{}: {} at node {}, expected {}", file.origin(member), found, i, expected));
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

/// Sets the features of one graph's nodes; `first` is its first node.
void set_features(const Members& m, size_t first, size_t count, float* features) {
  static const uint8_t loop = tir_type_id("For"), call = tir_type_id("Call"), var = tir_type_id("Var");
  std::vector<int64_t> children(count, 0), depth(count, 0);
  for (size_t p = 0; p < count; ++p) {
    const size_t i = first + p;
    float* row = features + i * static_cast<size_t>(Columns::count);
    const auto set = [row](int64_t column, double value) { row[column] = static_cast<float>(value); };
    if (p > 0) {
      const auto parent = static_cast<size_t>(m.parent[i]);
      set(Columns::position, log_of(children[parent]++));
      depth[p] = depth[parent] + 1;
    }
    set(Columns::depth, kDepthScale * static_cast<double>(depth[p]));
    set(Columns::extent, log_of(m.extent[i]));
    if (m.loop_kind[i] >= 0) set(Columns::loop_kind + m.loop_kind[i], 1.0);
    if (!std::isnan(m.value[i])) {
      set(Columns::is_immediate, 1.0);
      set(Columns::value, log_of_value(m.value[i]));
    }
    set(Columns::buffer_elements, log_of(m.buffer_elements[i]));
    set(Columns::has_buffer, m.buffer[i] >= 0);
    set(Columns::has_variable, m.variable[i] >= 0);
    if (m.type[i] == call) set(Columns::call_op + m.call_op[i], 1.0);
    if (m.type[i] != var || m.variable[i] < 0) continue;
    int64_t loops = 0;
    for (int32_t above = m.parent[i]; above >= 0; above = m.parent[first + static_cast<size_t>(above)]) {
      const size_t k = first + static_cast<size_t>(above);
      if (m.type[k] != loop) continue;
      ++loops;
      if (m.variable[k] != m.variable[i]) continue;
      set(Columns::variable_extent, log_of(m.extent[k]));
      set(Columns::variable_distance, log_of(loops));
      break;
    }
  }
  for (size_t p = 0; p < count; ++p)
    features[(first + p) * static_cast<size_t>(Columns::count) + Columns::children] =
        static_cast<float>(log_of(children[p]));
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

Group read_program(const NpzReader& file) {
  Group group;
  group.kind = CandidateKind::program;
  group.unit = RuntimeUnit::seconds;
  auto graph_ptr = read_graph_ptr(file);
  const int64_t nodes = graph_ptr.back();
  group.candidates = static_cast<int64_t>(graph_ptr.size()) - 1;
  Members members = read_members(file, nodes);

  std::vector<int64_t> edge_ptr = {0};
  std::vector<int32_t> source, target;
  std::vector<float> features(static_cast<size_t>(nodes * Columns::count), 0.0f);
  for (size_t g = 0; g + 1 < graph_ptr.size(); ++g) {
    const int64_t first = graph_ptr[g], count = graph_ptr[g + 1] - first;
    for (int64_t position = 0; position < count; ++position) {
      const auto i = static_cast<size_t>(first + position);
      check_node(file, members, i, position);
      if (position == 0) continue;
      source.push_back(static_cast<int32_t>(first + position));
      target.push_back(static_cast<int32_t>(first + members.parent[i]));
    }
    edge_ptr.push_back(static_cast<int64_t>(source.size()));
    set_features(members, static_cast<size_t>(first), static_cast<size_t>(count), features.data());
  }
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
  group.graphs.feature_count = Columns::count;
  group.graphs.node_type_count = kTirTypes;
  group.graphs.graph_ptr = std::move(graph_ptr);
  group.graphs.edge_ptr = std::move(edge_ptr);
  group.graphs.node_features = std::move(features);
  group.graphs.node_types = std::move(members.type);
  group.graphs.edge_source = std::move(source);
  group.graphs.edge_target = std::move(target);
  return group;
}

}  // namespace foretime::data
