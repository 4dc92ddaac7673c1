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

}  // namespace foretime::data
