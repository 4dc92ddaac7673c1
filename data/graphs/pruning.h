#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/graphs/group.h"

namespace foretime::data {

/// Holds the neighbours of each node of a block, by edges in either direction; parallel edges repeat a neighbour.
struct Neighbours {
  explicit Neighbours(const GraphBlock& graphs);
  std::vector<int64_t> first;  // [nodes + 1] neighbours of node v are nodes[first[v]] … nodes[first[v + 1] - 1]
  std::vector<int32_t> nodes;  // [2 edges] node ids
};

/// Holds some nodes of a graph and the edges between them, renumbered in order.
struct InducedGraph {
  GraphBlock graph;
  std::vector<int32_t> local;  // [nodes of the whole graph] new id, or -1 for a removed node
};

/// Returns the graph of `nodes`, ascending ids in `whole`, and of the edges between them. `whole` must be one graph.
InducedGraph induced_graph(const GraphBlock& whole, std::span<const int32_t> nodes);

// Pruning removes the nodes of layout graphs that are far from all configurable nodes. A state after l messages depends
// only on nodes within l edges, so a model sees no more of the removed nodes than sums over all nodes.
//
// A model that passes messages over l edges (configs::message_hops) and reads only configurable nodes gives the same
// scores after pruning to l hops, or to l + 1 if the weights of its relations depend on degrees (any EdgeNorm but sum),
// which count the edges of nodes at a distance of l. Exceptions are models with statistics over the nodes of a batch or
// graph, or with an estimated λmax of the Laplacian: their scores change.

/// The number of hops that means no pruning.
constexpr int64_t kNoPruning = -1;

/// Returns, ascending, the configurable nodes and all nodes within `hops` edges of them, in either direction.
std::vector<int32_t> nodes_near_configurable(const Group& group, int64_t hops);

/// Returns the group with only the nodes within `hops` edges of a configurable node and the edges between them. All
/// configurable nodes are kept, so that layout tables and codes, run times and configuration hashes are shared with
/// `group`; node ids and node_splits are renumbered. Groups of other kinds or without configurable nodes, and all
/// groups if `hops` is negative (kNoPruning), are returned unchanged.
Group pruned_group(const Group& group, int64_t hops);

}  // namespace foretime::data
