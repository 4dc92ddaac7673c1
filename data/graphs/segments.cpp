#include "data/graphs/segments.h"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <tuple>
#include <utility>

#include <metis.h>

#include "base/error.h"
#include "base/index_range.h"

namespace foretime::data {
namespace {

/// Undirected adjacency as METIS wants it: no self loops, parallel edges as one with their number as weight.
struct Adjacency {
  std::vector<idx_t> start, neighbour, weight;
};

Adjacency undirected(const GraphBlock& graphs, int64_t first, int64_t last) {
  std::vector<std::pair<idx_t, idx_t>> ends;
  for (int64_t e = 0; e < graphs.edges(); ++e) {
    const int64_t u = graphs.edge_source[e], v = graphs.edge_target[e];
    if (u == v || u < first || u >= last || v < first || v >= last) continue;
    ends.emplace_back(u - first, v - first);
    ends.emplace_back(v - first, u - first);
  }
  std::ranges::sort(ends);
  Adjacency result;
  result.start.assign(last - first + 1, 0);
  for (size_t i = 0; i < ends.size(); ++i) {
    if (i > 0 && ends[i] == ends[i - 1]) {
      ++result.weight.back();
      continue;
    }
    result.neighbour.push_back(ends[i].second);
    result.weight.push_back(1);
    ++result.start[ends[i].first + 1];
  }
  for (size_t v = 1; v < result.start.size(); ++v) result.start[v] += result.start[v - 1];
  return result;
}

std::vector<idx_t> metis_parts(Adjacency& graph, idx_t parts) {
  idx_t nodes = graph.start.size() - 1;
  idx_t constraints = 1, cut = 0;
  std::vector<idx_t> part(nodes, 0), options(METIS_NOPTIONS);
  METIS_SetDefaultOptions(options.data());
  options[METIS_OPTION_SEED] = 1;
  options[METIS_OPTION_UFACTOR] = 5;  // a largest part of 1.005 times the mean
  // METIS draws from the C library's generator, of which a process has one.
  static std::mutex drawing;
  const std::lock_guard lock(drawing);
  const int status =
      METIS_PartGraphKway(&nodes, &constraints, graph.start.data(), graph.neighbour.data(), nullptr, nullptr,
                          graph.weight.data(), &parts, nullptr, nullptr, options.data(), &cut, part.data());
  if (status != METIS_OK)
    throw DataError("METIS cannot cut {} nodes into {} parts: status {}, which is {}", nodes, parts, status,
                    status == METIS_ERROR_MEMORY ? "out of memory" : "an error");
  return part;
}

/// Moves one node at a time out of parts that are too large.
class Balancer {
 public:
  Balancer(const Adjacency& graph, std::vector<idx_t>& part, idx_t parts, int64_t max_nodes)
      : graph_(graph), part_(part), max_nodes_(max_nodes), size_(parts) {
    for (const idx_t p : part_) ++size_[p];
  }

  void run() {
    for (size_t p = 0; p < size_.size(); ++p)
      while (size_[p] > max_nodes_) move_one(p);
  }

 private:
  /// All parts together have room for all nodes, so there is always one to move to.
  void move_one(idx_t from) {
    const idx_t emptiest = std::ranges::min_element(size_) - size_.begin();
    std::tuple<idx_t, idx_t, idx_t> best{0, -1, emptiest};  // gain, node, to
    for (idx_t v = 0; v < static_cast<idx_t>(part_.size()); ++v) {
      if (part_[v] != from) continue;
      consider(v, emptiest, best);
      for (idx_t e = start(v); e < start(v + 1); ++e) {
        const idx_t to = part_of_neighbour(e);
        if (to != from && size_[to] < max_nodes_) consider(v, to, best);
      }
    }
    const auto [gain, node, to] = best;
    part_[node] = to;
    --size_[from];
    ++size_[to];
  }

  void consider(idx_t node, idx_t to, std::tuple<idx_t, idx_t, idx_t>& best) const {
    idx_t gain = 0;
    for (idx_t e = start(node); e < start(node + 1); ++e) {
      const idx_t there = part_of_neighbour(e), weight = graph_.weight[e];
      gain += there == to ? weight : there == part_[node] ? -weight : 0;
    }
    if (std::get<1>(best) < 0 || gain > std::get<0>(best)) best = {gain, node, to};
  }

  idx_t start(idx_t node) const { return graph_.start[node]; }
  idx_t part_of_neighbour(idx_t edge) const { return part_[graph_.neighbour[edge]]; }

  const Adjacency& graph_;
  std::vector<idx_t>& part_;
  int64_t max_nodes_;
  std::vector<int64_t> size_;
};

/// Divides the nodes [first, last) of the first graph into parts of at most `max_nodes` nodes with few edges between
/// them: METIS's k-way partition (Karypis and Kumar 1998) with a fixed seed, then, since METIS balances only nearly,
/// nodes move from parts that are too large to others with room, those first that cost the fewest cut edges. Edges that
/// leave the range do not count. Gives the part of each node; some parts may be empty. The same input gives the same
/// parts. Throws DataError where METIS fails.
std::vector<int32_t> partition_nodes(const GraphBlock& graphs, int64_t first, int64_t last, int64_t max_nodes) {
  const int64_t count = last - first;
  const idx_t parts = (count + max_nodes - 1) / max_nodes;
  if (parts <= 1) return std::vector<int32_t>(count, 0);
  auto graph = undirected(graphs, first, last);
  auto part = metis_parts(graph, parts);
  Balancer(graph, part, parts, max_nodes).run();
  return {part.begin(), part.end()};
}

/// Returns the starts of computations and the end: strictly ascending from 0. The files' lists may lack either.
std::vector<int64_t> computation_bounds(const Group& group) {
  std::vector<int64_t> bounds(group.node_splits.begin(), group.node_splits.end());
  bounds.push_back(0);
  bounds.push_back(group.graphs.nodes());
  std::ranges::sort(bounds);
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
    for (int64_t v = first; v < last; ++v) segments_.nodes.push_back(v);
    segments_.first.push_back(segments_.nodes.size());
  }

  void cut(int64_t first, int64_t last) {
    const int64_t count = last - first, parts = (count + rule_.max_nodes - 1) / rule_.max_nodes;
    if (rule_.method == SegmentMethod::contiguous) {
      for (int64_t p = 0; p < parts; ++p) append_run(first + count * p / parts, first + count * (p + 1) / parts);
      return;
    }
    const auto part = partition_nodes(graphs_, first, last, rule_.max_nodes);
    std::vector<std::vector<int32_t>> members(*std::ranges::max_element(part) + 1);
    for (int64_t v = first; v < last; ++v) members[part[v - first]].push_back(v);
    std::erase_if(members, [](const auto& nodes) { return nodes.empty(); });
    std::ranges::sort(members);
    for (const auto& nodes : members) {
      segments_.nodes.insert(segments_.nodes.end(), nodes.begin(), nodes.end());
      segments_.first.push_back(segments_.nodes.size());
    }
  }

  const GraphBlock& graphs_;
  SegmentRule rule_;
  Segments segments_;
  int64_t open_ = 0, end_ = 0;  // whole computations that wait for more to share a segment with
};

}  // namespace

std::span<const int32_t> Segments::operator[](int64_t segment) const { return row_of(nodes, first, segment); }

std::vector<int32_t> Segments::of_nodes() const {
  std::vector<int32_t> result(nodes.size());
  for (int64_t s = 0; s < count(); ++s)
    for (const int32_t v : (*this)[s]) result[v] = s;
  return result;
}

Segments make_segments(const Group& group, const SegmentRule& rule) {
  if (group.kind != CandidateKind::layout)
    throw DataError("group {}: cannot be cut into segments, expected a layout group", group.name);
  Segments whole;
  const int64_t nodes = group.graphs.nodes();
  if (rule.max_nodes <= 0 || nodes <= rule.max_nodes) {
    whole.nodes.resize(nodes);
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
