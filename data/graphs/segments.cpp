#include "data/graphs/segments.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/error.h"
#include "data/graphs/graph_partition.h"

namespace foretime::data {
namespace {

/// Where computations start, and the end: strictly ascending from 0. The files' lists may lack either.
std::vector<int64_t> computation_bounds(const Group& group) {
  std::vector<int64_t> bounds(group.node_splits.begin(), group.node_splits.end());
  bounds.push_back(0);
  bounds.push_back(group.graphs.nodes());
  std::sort(bounds.begin(), bounds.end());
  bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
  return bounds;
}

class Cutter {
 public:
  Cutter(const Group& group, const SegmentRule& rule) : graphs_(group.graphs), rule_(rule) {}

  /// Adds the computation [first, last).
  void add(int64_t first, int64_t last) {
    if (last - first > rule_.max_nodes) {
      close();
      cut(first, last);
      open_ = end_ = last;
      return;
    }
    if (last - open_ > rule_.max_nodes) close();
    end_ = last;
  }

  Segments finish() && {
    close();
    return std::move(segments_);
  }

 private:
  void close() {
    if (end_ > open_) append_run(open_, end_);
    open_ = end_;
  }

  void append_run(int64_t first, int64_t last) {
    for (int64_t v = first; v < last; ++v) segments_.nodes.push_back(static_cast<int32_t>(v));
    segments_.first.push_back(static_cast<int64_t>(segments_.nodes.size()));
  }

  void cut(int64_t first, int64_t last) {
    const int64_t count = last - first, parts = (count + rule_.max_nodes - 1) / rule_.max_nodes;
    if (rule_.method == SegmentMethod::contiguous) {
      for (int64_t p = 0; p < parts; ++p) append_run(first + count * p / parts, first + count * (p + 1) / parts);
      return;
    }
    const auto part = partition_nodes(graphs_, first, last, rule_.max_nodes);
    std::vector<std::vector<int32_t>> members(static_cast<size_t>(*std::max_element(part.begin(), part.end())) + 1);
    for (int64_t v = first; v < last; ++v) {
      members[static_cast<size_t>(part[static_cast<size_t>(v - first)])].push_back(static_cast<int32_t>(v));
    }
    std::erase_if(members, [](const auto& nodes) { return nodes.empty(); });
    std::sort(members.begin(), members.end());
    for (const auto& nodes : members) {
      segments_.nodes.insert(segments_.nodes.end(), nodes.begin(), nodes.end());
      segments_.first.push_back(static_cast<int64_t>(segments_.nodes.size()));
    }
  }

  const GraphBlock& graphs_;
  SegmentRule rule_;
  Segments segments_;
  int64_t open_ = 0, end_ = 0;  // whole computations that wait for more to share a segment with
};

}  // namespace

std::span<const int32_t> Segments::operator[](int64_t segment) const {
  const auto s = static_cast<size_t>(segment);
  return std::span(nodes).subspan(static_cast<size_t>(first[s]), static_cast<size_t>(first[s + 1] - first[s]));
}

std::vector<int32_t> Segments::of_nodes() const {
  std::vector<int32_t> result(nodes.size());
  for (int64_t s = 0; s < count(); ++s) {
    for (const int32_t v : (*this)[s]) result[static_cast<size_t>(v)] = static_cast<int32_t>(s);
  }
  return result;
}

Segments make_segments(const Group& group, const SegmentRule& rule) {
  if (group.kind != CandidateKind::layout) {
    throw DataError(fmt::format("{}: cut into segments, expected a layout group", group.name));
  }
  Segments whole;
  const int64_t nodes = group.graphs.nodes();
  if (rule.max_nodes <= 0 || nodes <= rule.max_nodes) {
    whole.nodes.resize(static_cast<size_t>(nodes));
    std::iota(whole.nodes.begin(), whole.nodes.end(), 0);
    if (nodes > 0) whole.first.push_back(nodes);
    return whole;
  }
  Cutter cutter(group, rule);
  const auto bounds = computation_bounds(group);
  for (size_t i = 0; i + 1 < bounds.size(); ++i) cutter.add(bounds[i], bounds[i + 1]);
  return std::move(cutter).finish();
}

}  // namespace foretime::data
