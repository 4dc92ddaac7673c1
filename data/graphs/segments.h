#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "configs/settings.h"
#include "data/graphs/group.h"

/// Cuts graphs into segments, so that a training step holds the activations of only one of them (Graph Segment
/// Training, Cao et al., arXiv 2305.12322).
namespace foretime::data {

/// Selects the method: contiguous makes runs of node ids, of equal length within a computation; metis makes few edges
/// between segments (METIS 5, k-way).
using configs::SegmentMethod;

struct SegmentRule {
  int64_t max_nodes = 0;  // largest segment; 0: one segment of any size
  SegmentMethod method = SegmentMethod::contiguous;
};

/// Holds the segments of a graph: every node is in exactly one of them, and none is empty.
struct Segments {
  std::vector<int64_t> first = {0};  // [segments + 1] where each segment begins in `nodes`, and the end
  std::vector<int32_t> nodes;        // node ids, segment after segment, ascending within each

  int64_t count() const { return std::ssize(first) - 1; }  // number of segments
  /// Returns the node ids of a segment, ascending.
  std::span<const int32_t> operator[](int64_t segment) const;
  /// Returns the index of each node's segment, [nodes].
  std::vector<int32_t> of_nodes() const;
};

/// Cuts the graph of a layout group into segments of at most rule.max_nodes nodes; a pure function of the group's graph
/// and the rule. Computations (node_splits) that fit are kept whole: consecutive ones share a segment up to max_nodes.
/// A larger computation is cut into separate segments by the rule's method. Segments are ordered by their first nodes.
/// Throws DataError if the group is not a layout group or METIS fails.
Segments make_segments(const Group& group, const SegmentRule& rule);

}  // namespace foretime::data
