#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "data/files/npz_groups.h"
#include "data/graphs/schema.h"
#include "data/graphs/validate.h"

namespace foretime::data {
namespace {

const ShapeRule kNodeFeatureRule{{kAnySize, kHloFeatures}, "(nodes, 140)"};
const ShapeRule kEdgeRule{{kAnySize, 2}, "(edges, 2)"};

constexpr int64_t kNodesAtOnce = 1024;  // half a megabyte of features

int64_t checked_nodes(const NpzReader& file, int64_t nodes) {
  if (nodes < 1 || nodes > std::numeric_limits<int32_t>::max())
    throw DataError(fmt::format("{}: {} nodes, expected 1 … 2^31 - 1", file.origin("node_feat"), nodes));
  return nodes;
}

/// Returns the number of nodes.
int64_t read_features(const NpzReader& file, const FeatureSink& features) {
  NpyStream stream = file.open("node_feat", kNodeFeatureRule);
  const int64_t nodes = checked_nodes(file, stream.header().shape[0]);
  int64_t done = 0;
  const auto pass = [&](std::span<const float> rows) {
    const int64_t wrong = first_not_finite(rows);
    if (wrong >= 0)
      throw DataError(fmt::format("{}: {} at node {}, column {}, expected finite numbers", stream.origin(),
                                  rows[static_cast<size_t>(wrong)], done + wrong / kHloFeatures, wrong % kHloFeatures));
    features(rows, kHloFeatures);
    done += static_cast<int64_t>(rows.size()) / kHloFeatures;
  };
  if (stream.header().fortran_order) {
    pass(stream.read_all<float>());
    return nodes;
  }
  std::vector<float> piece(static_cast<size_t>(std::min(nodes, kNodesAtOnce) * kHloFeatures));
  while (done < nodes) {
    const auto now = static_cast<size_t>(std::min(nodes - done, kNodesAtOnce) * kHloFeatures);
    stream.read(piece.data(), static_cast<int64_t>(now));
    pass(std::span<const float>(piece).first(now));
  }
  stream.finish();
  return nodes;
}

}  // namespace

void describe_hlo_graph(const NpzReader& file, GroupHeader& header) {
  header.graphs = 1;
  header.nodes = checked_nodes(file, file.size("node_feat", kNodeFeatureRule, 0));
  header.edges = file.size("edge_index", kEdgeRule, 0);
  header.feature_count = kHloFeatures;
  header.node_type_count = kHloOpcodes;
}

GraphBlock read_hlo_graph(const NpzReader& file, const FeatureSink& features) {
  GraphBlock graph;
  graph.feature_count = kHloFeatures;
  graph.node_type_count = kHloOpcodes;
  const int64_t nodes = read_features(file, features);
  auto opcodes = file.read<uint8_t>("node_opcode", {{nodes}, "(nodes,)"});
  for (size_t i = 0; i < opcodes.size(); ++i) {
    if (opcodes[i] >= kHloOpcodes)
      throw DataError(fmt::format("{}: opcode {} at node {}, expected 0 … {}", file.origin("node_opcode"), opcodes[i],
                                  i, kHloOpcodes - 1));
  }
  const auto ends = file.read<int64_t>("edge_index", kEdgeRule);
  const auto edges = static_cast<int64_t>(ends.size()) / 2;
  std::vector<int32_t> source(static_cast<size_t>(edges)), target(source.size());
  for (size_t e = 0; e < source.size(); ++e) {
    for (const int64_t end : {ends[2 * e], ends[2 * e + 1]}) {
      if (end < 0 || end >= nodes)
        throw DataError(
            fmt::format("{}: edge {} ends at node {}, expected 0 … {}", file.origin("edge_index"), e, end, nodes - 1));
    }
    target[e] = static_cast<int32_t>(ends[2 * e]);
    source[e] = static_cast<int32_t>(ends[2 * e + 1]);
  }
  graph.graph_ptr = std::vector<int64_t>{0, nodes};
  graph.edge_ptr = std::vector<int64_t>{0, edges};
  graph.node_types = std::move(opcodes);
  graph.edge_source = std::move(source);
  graph.edge_target = std::move(target);
  return graph;
}

GraphBlock read_hlo_graph(const NpzReader& file) {
  std::vector<float> features;
  GraphBlock graph = read_hlo_graph(
      file, [&](std::span<const float> rows, int64_t) { features.insert(features.end(), rows.begin(), rows.end()); });
  graph.node_features = std::move(features);
  return graph;
}

void check_runtimes(std::span<const double> runtimes, bool may_be_unlabelled, const std::string& origin) {
  size_t zeros = 0;
  for (size_t c = 0; c < runtimes.size(); ++c) {
    if (!std::isfinite(runtimes[c]) || runtimes[c] < 0.0)
      throw DataError(
          fmt::format("{}: run time {} of candidate {}, expected a positive number", origin, runtimes[c], c));
    zeros += runtimes[c] == 0.0;
  }
  if (zeros != 0 && !(may_be_unlabelled && zeros == runtimes.size()))
    throw DataError(fmt::format("{}: {} of {} run times are 0, expected none{}", origin, zeros, runtimes.size(),
                                may_be_unlabelled ? " (or all, in a file without labels)" : ""));
}

}  // namespace foretime::data
