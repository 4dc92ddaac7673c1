#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "configs/settings.h"
#include "data/graphs/group.h"

/// Graphs cut into segments, so that a training step holds the activations of one of them (Graph Segment Training, Cao
/// et al., arXiv 2305.12322).
namespace foretime::data {

/// contiguous: runs of node ids, of equal length within a computation. metis: few edges between segments (METIS 5,
/// k-way).
using configs::SegmentMethod;

struct SegmentRule {
  int64_t max_nodes = 0;  // of a segment; 0: one segment, whatever its size
  SegmentMethod method = SegmentMethod::contiguous;
};

/// The segments of a graph: every node lies in one of them, none is empty.
struct Segments {
  std::vector<int64_t> first = {0};  // [segments + 1] into `nodes`
  std::vector<int32_t> nodes;        // segment after segment, ascending within each

  int64_t count() const { return static_cast<int64_t>(first.size()) - 1; }
  std::span<const int32_t> operator[](int64_t segment) const;
  /// [nodes] the segment of each node.
  std::vector<int32_t> of_nodes() const;
};

/// Cuts the graph of a layout group; a pure function of the group's graph and the rule. Computations (node_splits) stay
/// whole where they fit: consecutive ones are packed into one segment as long as there is room. A computation of more
/// than max_nodes nodes is cut into segments of its own, as the rule's method says. Segments stand in the order of
/// their first nodes. Throws DataError where the group is not a layout group, or METIS fails.
Segments make_segments(const Group& group, const SegmentRule& rule);

}  // namespace foretime::data
