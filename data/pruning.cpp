#include "data/pruning.h"

#include <algorithm>

namespace foretime::data {
namespace {

/// The neighbours of each node, edges taken in both directions.
struct Neighbours {
  explicit Neighbours(const GraphBlock& graphs)
      : first(static_cast<size_t>(graphs.nodes()) + 1, 0), nodes(2 * static_cast<size_t>(graphs.edges())) {
    for (int64_t e = 0; e < graphs.edges(); ++e) {
      ++first[static_cast<size_t>(graphs.edge_source[e]) + 1];
      ++first[static_cast<size_t>(graphs.edge_target[e]) + 1];
    }
    for (size_t v = 1; v < first.size(); ++v) first[v] += first[v - 1];
    auto next = first;
    for (int64_t e = 0; e < graphs.edges(); ++e) {
      const int32_t u = graphs.edge_source[e], v = graphs.edge_target[e];
      nodes[next[static_cast<size_t>(u)]++] = v;
      nodes[next[static_cast<size_t>(v)]++] = u;
    }
  }
  std::vector<size_t> first;   // [nodes + 1]
  std::vector<int32_t> nodes;  // [2 edges]
};

/// New id of each node, -1 for those that go.
std::vector<int32_t> renumbered(int64_t nodes, const std::vector<int32_t>& kept) {
  std::vector<int32_t> local(static_cast<size_t>(nodes), -1);
  for (size_t i = 0; i < kept.size(); ++i) local[static_cast<size_t>(kept[i])] = static_cast<int32_t>(i);
  return local;
}

GraphBlock part_of(const GraphBlock& graphs, const std::vector<int32_t>& kept, const std::vector<int32_t>& local) {
  GraphBlock part;
  part.feature_count = graphs.feature_count;
  part.node_type_count = graphs.node_type_count;
  std::vector<float> features;
  std::vector<uint8_t> types;
  features.reserve(kept.size() * static_cast<size_t>(graphs.feature_count));
  types.reserve(kept.size());
  for (const int32_t v : kept) {
    const auto row = graphs.node_features.subspan(v * graphs.feature_count, graphs.feature_count);
    features.insert(features.end(), row.begin(), row.end());
    types.push_back(graphs.node_types[v]);
  }
  std::vector<int32_t> sources, targets;
  for (int64_t e = 0; e < graphs.edges(); ++e) {
    const int32_t u = local[static_cast<size_t>(graphs.edge_source[e])];
    const int32_t v = local[static_cast<size_t>(graphs.edge_target[e])];
    if (u < 0 || v < 0) continue;
    sources.push_back(u);
    targets.push_back(v);
  }
  part.graph_ptr = std::vector<int64_t>{0, static_cast<int64_t>(kept.size())};
  part.edge_ptr = std::vector<int64_t>{0, static_cast<int64_t>(sources.size())};
  part.node_features = std::move(features);
  part.node_types = std::move(types);
  part.edge_source = std::move(sources);
  part.edge_target = std::move(targets);
  return part;
}

}  // namespace

std::vector<int32_t> nodes_near_configurable(const Group& group, int64_t hops) {
  const Neighbours neighbours(group.graphs);
  std::vector<bool> near(static_cast<size_t>(group.graphs.nodes()), false);
  std::vector<int32_t> frontier(group.layout.nodes.begin(), group.layout.nodes.end());
  for (const int32_t v : frontier) near[static_cast<size_t>(v)] = true;
  for (int64_t hop = 0; hop < hops && !frontier.empty(); ++hop) {
    std::vector<int32_t> next;
    for (const int32_t v : frontier) {
      for (size_t i = neighbours.first[static_cast<size_t>(v)]; i < neighbours.first[static_cast<size_t>(v) + 1]; ++i) {
        const int32_t u = neighbours.nodes[i];
        if (near[static_cast<size_t>(u)]) continue;
        near[static_cast<size_t>(u)] = true;
        next.push_back(u);
      }
    }
    frontier = std::move(next);
  }
  std::vector<int32_t> nodes;
  for (size_t v = 0; v < near.size(); ++v) {
    if (near[v]) nodes.push_back(static_cast<int32_t>(v));
  }
  return nodes;
}

Group pruned_group(const Group& group, int64_t hops) {
  if (hops < 0 || group.kind != CandidateKind::layout || group.layout.configurable() == 0) return group;
  const auto kept = nodes_near_configurable(group, hops);
  if (static_cast<int64_t>(kept.size()) == group.graphs.nodes()) return group;
  const auto local = renumbered(group.graphs.nodes(), kept);
  Group result = group;
  result.graphs = part_of(group.graphs, kept, local);
  std::vector<int32_t> configurable;
  for (const int32_t v : group.layout.nodes) configurable.push_back(local[static_cast<size_t>(v)]);
  result.layout.nodes = std::move(configurable);
  std::vector<int64_t> splits;
  for (const int64_t split : group.node_splits)
    splits.push_back(std::lower_bound(kept.begin(), kept.end(), split) - kept.begin());
  result.node_splits = std::move(splits);
  return result;
}

}  // namespace foretime::data
