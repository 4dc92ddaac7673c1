#include "data/graphs/graph_partition.h"

#include <algorithm>
#include <mutex>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <metis.h>

#include "base/error.h"

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
    ends.emplace_back(static_cast<idx_t>(u - first), static_cast<idx_t>(v - first));
    ends.emplace_back(static_cast<idx_t>(v - first), static_cast<idx_t>(u - first));
  }
  std::sort(ends.begin(), ends.end());
  Adjacency result;
  result.start.assign(static_cast<size_t>(last - first) + 1, 0);
  for (size_t i = 0; i < ends.size(); ++i) {
    if (i > 0 && ends[i] == ends[i - 1]) {
      ++result.weight.back();
      continue;
    }
    result.neighbour.push_back(ends[i].second);
    result.weight.push_back(1);
    ++result.start[static_cast<size_t>(ends[i].first) + 1];
  }
  for (size_t v = 1; v < result.start.size(); ++v) result.start[v] += result.start[v - 1];
  return result;
}

std::vector<idx_t> metis_parts(Adjacency& graph, idx_t parts) {
  auto nodes = static_cast<idx_t>(graph.start.size() - 1);
  idx_t constraints = 1, cut = 0;
  std::vector<idx_t> part(static_cast<size_t>(nodes), 0), options(METIS_NOPTIONS);
  METIS_SetDefaultOptions(options.data());
  options[METIS_OPTION_SEED] = 1;
  options[METIS_OPTION_UFACTOR] = 5;  // a largest part of 1.005 times the mean
  // METIS draws from the C library's generator, of which a process has one.
  static std::mutex drawing;
  const std::lock_guard lock(drawing);
  const int status =
      METIS_PartGraphKway(&nodes, &constraints, graph.start.data(), graph.neighbour.data(), nullptr, nullptr,
                          graph.weight.data(), &parts, nullptr, nullptr, options.data(), &cut, part.data());
  if (status != METIS_OK) throw DataError(fmt::format("METIS: {} nodes in {} parts: status {}", nodes, parts, status));
  return part;
}

/// Moves one node at a time out of parts that are too large.
class Balancer {
 public:
  Balancer(const Adjacency& graph, std::vector<idx_t>& part, idx_t parts, int64_t max_nodes)
      : graph_(graph), part_(part), max_nodes_(max_nodes), size_(static_cast<size_t>(parts)) {
    for (const idx_t p : part_) ++size_[static_cast<size_t>(p)];
  }

  void run() {
    for (size_t p = 0; p < size_.size(); ++p) {
      while (size_[p] > max_nodes_) move_one(static_cast<idx_t>(p));
    }
  }

 private:
  /// All parts together have room for all nodes, so there is always one to move to.
  void move_one(idx_t from) {
    const auto emptiest = static_cast<idx_t>(std::min_element(size_.begin(), size_.end()) - size_.begin());
    std::tuple<idx_t, idx_t, idx_t> best{0, -1, emptiest};  // gain, node, to
    for (idx_t v = 0; v < static_cast<idx_t>(part_.size()); ++v) {
      if (part_[static_cast<size_t>(v)] != from) continue;
      consider(v, emptiest, best);
      for (idx_t e = start(v); e < start(v + 1); ++e) {
        const idx_t to = part_of_neighbour(e);
        if (to != from && size_[static_cast<size_t>(to)] < max_nodes_) consider(v, to, best);
      }
    }
    const auto [gain, node, to] = best;
    part_[static_cast<size_t>(node)] = to;
    --size_[static_cast<size_t>(from)];
    ++size_[static_cast<size_t>(to)];
  }

  void consider(idx_t node, idx_t to, std::tuple<idx_t, idx_t, idx_t>& best) const {
    idx_t gain = 0;
    for (idx_t e = start(node); e < start(node + 1); ++e) {
      const idx_t there = part_of_neighbour(e), weight = graph_.weight[static_cast<size_t>(e)];
      gain += there == to ? weight : there == part_[static_cast<size_t>(node)] ? -weight : 0;
    }
    if (std::get<1>(best) < 0 || gain > std::get<0>(best)) best = {gain, node, to};
  }

  idx_t start(idx_t node) const { return graph_.start[static_cast<size_t>(node)]; }
  idx_t part_of_neighbour(idx_t edge) const {
    return part_[static_cast<size_t>(graph_.neighbour[static_cast<size_t>(edge)])];
  }

  const Adjacency& graph_;
  std::vector<idx_t>& part_;
  int64_t max_nodes_;
  std::vector<int64_t> size_;
};

}  // namespace

std::vector<int32_t> partition_nodes(const GraphBlock& graphs, int64_t first, int64_t last, int64_t max_nodes) {
  const int64_t count = last - first;
  const auto parts = static_cast<idx_t>((count + max_nodes - 1) / max_nodes);
  if (parts <= 1) return std::vector<int32_t>(static_cast<size_t>(count), 0);
  auto graph = undirected(graphs, first, last);
  auto part = metis_parts(graph, parts);
  Balancer(graph, part, parts, max_nodes).run();
  return {part.begin(), part.end()};
}

}  // namespace foretime::data
