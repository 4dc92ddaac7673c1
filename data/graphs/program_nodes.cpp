#include "data/graphs/program_nodes.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/index_range.h"
#include "data/graphs/schema.h"

namespace foretime::data {
namespace {

using Columns = ProgramColumns;

constexpr double kLargestLog = 1024.0;  // log2 of the largest double: what an infinite immediate becomes
constexpr double kDepthScale = 0.1;

double log_of(int64_t count) { return std::log2(1.0 + count); }

double log_of_value(double value) {
  return std::copysign(std::min(kLargestLog, std::log2(1.0 + std::abs(value))), value);
}

/// Sets the features of one graph's nodes; `first` is its first node.
void set_features(const ProgramNodes& m, size_t first, size_t count, float* features) {
  static const uint8_t loop = tir_type_id("For"), call = tir_type_id("Call"), var = tir_type_id("Var");
  std::vector<int64_t> children(count, 0), depth(count, 0);
  for (size_t p = 0; p < count; ++p) {
    const size_t i = first + p;
    float* row = features + i * Columns::count;
    const auto set = [row](int64_t column, double value) { row[column] = value; };
    if (p > 0) {
      const size_t parent = m.parent[i];
      set(Columns::position, log_of(children[parent]++));
      depth[p] = depth[parent] + 1;
    }
    set(Columns::depth, kDepthScale * depth[p]);
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
    for (int32_t above = m.parent[i]; above >= 0; above = m.parent[first + above]) {
      const size_t k = first + above;
      if (m.type[k] != loop) continue;
      ++loops;
      if (m.variable[k] != m.variable[i]) continue;
      set(Columns::variable_extent, log_of(m.extent[k]));
      set(Columns::variable_distance, log_of(loops));
      break;
    }
  }
  for (size_t p = 0; p < count; ++p) features[(first + p) * Columns::count + Columns::children] = log_of(children[p]);
}

}  // namespace

GraphBlock program_graphs(ProgramNodes nodes) {
  GraphBlock graphs;
  graphs.feature_count = Columns::count;
  graphs.node_type_count = kTirTypes;
  std::vector<int64_t> edge_ptr = {0};
  std::vector<int32_t> source, target;
  std::vector<float> features(nodes.nodes() * Columns::count, 0.0f);
  for (size_t g = 0; g + 1 < nodes.graph_ptr.size(); ++g) {
    const auto own = entries_of(nodes.graph_ptr, g);
    for (const int64_t node : IndexRange(own.first() + 1, own.last())) {
      source.push_back(node);
      target.push_back(own.first() + nodes.parent[node]);
    }
    edge_ptr.push_back(source.size());
    set_features(nodes, own.first(), own.size(), features.data());
  }
  graphs.graph_ptr = std::move(nodes.graph_ptr);
  graphs.edge_ptr = std::move(edge_ptr);
  graphs.node_features = std::move(features);
  graphs.node_types = std::move(nodes.type);
  graphs.edge_source = std::move(source);
  graphs.edge_target = std::move(target);
  return graphs;
}

}  // namespace foretime::data
