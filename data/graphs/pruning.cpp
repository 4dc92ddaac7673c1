#include "data/graphs/pruning.h"

#include <algorithm>
#include <utility>

#include "base/index_range.h"

namespace foretime::data {
namespace {

template <class T>
Array<T> taken(const Array<T>& values, std::span<const int32_t> ids, int64_t width) {
  std::vector<T> result;
  result.reserve(ids.size() * width);
  for (const int32_t id : ids) {
    const auto part = values.subspan(id * width, width);
    result.insert(result.end(), part.begin(), part.end());
  }
  return result;
}

}  // namespace

Neighbours::Neighbours(const GraphBlock& graphs) : first(graphs.nodes() + 1, 0), nodes(2 * graphs.edges()) {
  for (int64_t e = 0; e < graphs.edges(); ++e) {
    ++first[graphs.edge_source[e] + 1];
    ++first[graphs.edge_target[e] + 1];
  }
  for (size_t v = 1; v < first.size(); ++v) first[v] += first[v - 1];
  auto next = first;
  for (int64_t e = 0; e < graphs.edges(); ++e) {
    const int32_t u = graphs.edge_source[e], v = graphs.edge_target[e];
    nodes[next[u]++] = v;
    nodes[next[v]++] = u;
  }
}

InducedGraph induced_graph(const GraphBlock& whole, std::span<const int32_t> nodes) {
  InducedGraph induced;
  induced.local.assign(whole.nodes(), -1);
  for (size_t i = 0; i < nodes.size(); ++i) induced.local[nodes[i]] = i;
  std::vector<int32_t> sources, targets;
  for (int64_t e = 0; e < whole.edges(); ++e) {
    const int32_t u = induced.local[whole.edge_source[e]];
    const int32_t v = induced.local[whole.edge_target[e]];
    if (u < 0 || v < 0) continue;
    sources.push_back(u);
    targets.push_back(v);
  }
  GraphBlock& graph = induced.graph;
  graph.feature_count = whole.feature_count;
  graph.node_type_count = whole.node_type_count;
  graph.node_features = taken(whole.node_features, nodes, whole.feature_count);
  graph.node_types = taken(whole.node_types, nodes, 1);
  graph.set_edges(std::move(sources), std::move(targets));
  return induced;
}

std::vector<int32_t> nodes_near_configurable(const Group& group, int64_t hops) {
  const Neighbours neighbours(group.graphs);
  std::vector<bool> near(group.graphs.nodes(), false);
  std::vector<int32_t> frontier(group.layout.nodes.begin(), group.layout.nodes.end());
  for (const int32_t v : frontier) near[v] = true;
  for (int64_t hop = 0; hop < hops && !frontier.empty(); ++hop) {
    std::vector<int32_t> next;
    for (const int32_t v : frontier) {
      for (const int64_t i : entries_of(neighbours.first, v)) {
        const int32_t u = neighbours.nodes[i];
        if (near[u]) continue;
        near[u] = true;
        next.push_back(u);
      }
    }
    frontier = std::move(next);
  }
  std::vector<int32_t> nodes;
  for (size_t v = 0; v < near.size(); ++v)
    if (near[v]) nodes.push_back(v);
  return nodes;
}

Group pruned_group(const Group& group, int64_t hops) {
  if (hops < 0 || group.kind != CandidateKind::layout || group.layout.configurable() == 0) return group;
  const auto kept = nodes_near_configurable(group, hops);
  if (std::ssize(kept) == group.graphs.nodes()) return group;
  auto induced = induced_graph(group.graphs, kept);
  Group result = group;
  result.graphs = std::move(induced.graph);
  std::vector<int32_t> configurable;
  for (const int32_t v : group.layout.nodes) configurable.push_back(induced.local[v]);
  result.layout.nodes = std::move(configurable);
  std::vector<int64_t> splits;
  for (const int64_t split : group.node_splits) splits.push_back(std::ranges::lower_bound(kept, split) - kept.begin());
  result.node_splits = std::move(splits);
  return result;
}

}  // namespace foretime::data
