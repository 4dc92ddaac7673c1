#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/graphs/group.h"

namespace foretime::data {

/// Some nodes of a graph and the edges between them, renumbered in their order.
struct InducedGraph {
  GraphBlock graph;
  std::vector<int32_t> local;  // new id of each node of the whole graph, -1 for those that are not in it
};

/// `nodes`: ascending. Of a block with one graph.
InducedGraph induced_graph(const GraphBlock& whole, std::span<const int32_t> nodes);

// Layout graphs without the nodes that are far from all configurable ones. A state after l messages depends on what
// is within l edges of its node, so of the rest of a graph a model sees no more than sums over all nodes.
//
// A model that passes messages over l edges (configs::message_hops) and reads nothing but configurable nodes gives the
// same scores after pruning to l hops, or to l + 1 where the weights of its relations depend on degrees (any EdgeNorm
// but sum), which count the edges of nodes at a distance of l. Two things do not fit in: statistics over the nodes of
// a batch or graph, and an estimated λmax of the Laplacian.

/// In place of a number of hops: the graph stays as it is.
constexpr int64_t kNoPruning = -1;

/// Nodes that at most `hops` edges, in whatever direction, part from a configurable node; ascending.
std::vector<int32_t> nodes_near_configurable(const Group& group, int64_t hops);

/// The group with these nodes and the edges between them. Its configurable nodes are all there, so the tables and codes
/// of layouts, run times and configuration hashes are those of `group`, shared with it; node ids and node_splits are
/// counted among what is left. Groups of other kinds or without configurable nodes, and all groups where `hops` is
/// kNoPruning, are given back as they are.
Group pruned_group(const Group& group, int64_t hops);

}  // namespace foretime::data
