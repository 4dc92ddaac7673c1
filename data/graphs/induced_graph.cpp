#include "data/graphs/induced_graph.h"

#include <utility>

namespace foretime::data {
namespace {

template <class T>
Array<T> taken(const Array<T>& values, std::span<const int32_t> ids, int64_t width) {
  std::vector<T> result;
  result.reserve(ids.size() * static_cast<size_t>(width));
  for (const int32_t id : ids) {
    const auto part = values.subspan(id * width, width);
    result.insert(result.end(), part.begin(), part.end());
  }
  return result;
}

}  // namespace

InducedGraph induced_graph(const GraphBlock& whole, std::span<const int32_t> nodes) {
  InducedGraph induced;
  induced.local.assign(static_cast<size_t>(whole.nodes()), -1);
  for (size_t i = 0; i < nodes.size(); ++i) induced.local[static_cast<size_t>(nodes[i])] = static_cast<int32_t>(i);
  std::vector<int32_t> sources, targets;
  for (int64_t e = 0; e < whole.edges(); ++e) {
    const int32_t u = induced.local[static_cast<size_t>(whole.edge_source[e])];
    const int32_t v = induced.local[static_cast<size_t>(whole.edge_target[e])];
    if (u < 0 || v < 0) continue;
    sources.push_back(u);
    targets.push_back(v);
  }
  GraphBlock& graph = induced.graph;
  graph.feature_count = whole.feature_count;
  graph.node_type_count = whole.node_type_count;
  graph.node_features = taken(whole.node_features, nodes, whole.feature_count);
  graph.node_types = taken(whole.node_types, nodes, 1);
  graph.graph_ptr = std::vector<int64_t>{0, static_cast<int64_t>(nodes.size())};
  graph.edge_ptr = std::vector<int64_t>{0, static_cast<int64_t>(sources.size())};
  graph.edge_source = std::move(sources);
  graph.edge_target = std::move(targets);
  return induced;
}

}  // namespace foretime::data
