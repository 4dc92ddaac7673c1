#include "data/files/npz_groups.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "base/index_range.h"
#include "data/files/program_oddities.h"
#include "data/graphs/schema.h"
#include "data/graphs/validate.h"

namespace foretime::data {
namespace {

const ShapeRule kNodeFeatureRule{{kAnySize, kHloFeatures}, "(nodes, 140)"};
const ShapeRule kEdgeRule{{kAnySize, 2}, "(edges, 2)"};

constexpr int64_t kNodesAtOnce = 1024;  // half a megabyte of features

int64_t checked_nodes(const NpzReader& file, int64_t nodes) {
  if (nodes < 1 || nodes > std::numeric_limits<int32_t>::max())
    throw DataError("{}: {} nodes, expected 1 … 2^31 - 1", file.origin("node_feat"), nodes);
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
      throw DataError("{}: {} at node {}, column {}, expected finite numbers", stream.origin(), rows[wrong],
                      done + wrong / kHloFeatures, wrong % kHloFeatures);
    features(rows, kHloFeatures);
    done += std::ssize(rows) / kHloFeatures;
  };
  if (stream.header().fortran_order) {
    pass(stream.read_all<float>());
    return nodes;
  }
  std::vector<float> piece(std::min(nodes, kNodesAtOnce) * kHloFeatures);
  while (done < nodes) {
    const size_t now = std::min(nodes - done, kNodesAtOnce) * kHloFeatures;
    stream.read(piece.data(), now);
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
  for (size_t i = 0; i < opcodes.size(); ++i)
    if (opcodes[i] >= kHloOpcodes)
      throw DataError("{}: opcode {} at node {}, expected 0 … {}", file.origin("node_opcode"), opcodes[i], i,
                      kHloOpcodes - 1);
  const auto ends = file.read<int64_t>("edge_index", kEdgeRule);
  std::vector<int32_t> source(ends.size() / 2), target(source.size());
  for (size_t e = 0; e < source.size(); ++e) {
    for (const int64_t end : {ends[2 * e], ends[2 * e + 1]})
      if (end < 0 || end >= nodes)
        throw DataError("{}: edge {} ends at node {}, expected 0 … {}", file.origin("edge_index"), e, end, nodes - 1);
    target[e] = ends[2 * e];
    source[e] = ends[2 * e + 1];
  }
  graph.node_types = std::move(opcodes);
  graph.set_edges(std::move(source), std::move(target));
  return graph;
}

GraphBlock read_hlo_graph(const NpzReader& file) {
  std::vector<float> features;
  GraphBlock graph = read_hlo_graph(
      file, [&](std::span<const float> rows, int64_t) { features.insert(features.end(), rows.begin(), rows.end()); });
  graph.node_features = std::move(features);
  return graph;
}

namespace {

const ShapeRule kRuntimeRule{{kAnySize}, "(configs,)"};
const ShapeRule kIdRule{{kAnySize}, "(configurable,)"};
constexpr int64_t kPieceBytes = 1 << 20;  // bytes of node_config_feat read at once: fits the second-level cache

/// Returns integers, also of an array of floats, whose values must be whole. Normalised run times are not: they have
/// lost their unit.
std::vector<int64_t> read_runtimes(const NpzReader& file, const std::string& entry, const ShapeRule& rule) {
  if (file.open(entry, rule).header().type.kind != NpyKind::floating) return file.read<int64_t>(entry, rule);
  constexpr double kLargest = 9e15;  // less than 2^53, up to which doubles hold all integers
  const auto values = file.read<double>(entry, rule);
  std::vector<int64_t> runtimes(values.size());
  for (size_t c = 0; c < values.size(); ++c) {
    if (!(std::abs(values[c]) <= kLargest) || values[c] != std::floor(values[c]))
      throw DataError(
          "{}: {} at candidate {}, expected whole nanoseconds; "
          "normalised run times have no unit: take the original file",
          file.origin(entry), values[c], c);
    runtimes[c] = values[c];
  }
  return runtimes;
}

std::vector<int32_t> read_configurable(const NpzReader& file, int64_t nodes) {
  const auto ids = file.read<int64_t>("node_config_ids", kIdRule);
  std::vector<int32_t> configurable;
  for (const int64_t id : ids) {
    if (id < 0 || id >= nodes)
      throw DataError("{}: node {}, expected 0 … {}", file.origin("node_config_ids"), id, nodes - 1);
    if (!configurable.empty() && id <= configurable.back())
      throw DataError("{}: node {} after {}, expected ascending ids", file.origin("node_config_ids"), id,
                      configurable.back());
    configurable.push_back(id);
  }
  return configurable;
}

std::vector<int64_t> read_splits(const NpzReader& file, int64_t nodes) {
  NpyStream stream = file.open("node_splits");
  const auto& shape = stream.header().shape;
  if (shape.size() != 1 && !(shape.size() == 2 && shape[0] == 1))
    throw DataError("{}: shape {}, expected (1, k) or (k,)", stream.origin(), shape_text(shape));
  auto splits = stream.read_all<int64_t>();
  for (size_t i = 0; i < splits.size(); ++i)
    if (splits[i] < 0 || splits[i] > nodes || (i > 0 && splits[i] < splits[i - 1]))
      throw DataError("{}: {} at position {}, expected ascending values from 0 to {}", stream.origin(), splits[i], i,
                      nodes);
  return splits;
}

/// Streams the candidates through the coder, a few at a time.
template <class T>
void code_in_pieces(NpyStream& stream, int64_t candidates, int64_t configurable, LayoutCoder& coder,
                    const LayoutSink& sink) {
  const int64_t width = configurable * kLayoutFeatures;
  const int64_t at_once = std::max<int64_t>(1, kPieceBytes / std::max<int64_t>(1, width * int64_t{sizeof(T)}));
  std::vector<T> piece(std::min(at_once, candidates) * width);
  std::vector<uint8_t> codes(std::min(at_once, candidates) * configurable);
  for (int64_t done = 0; done < candidates;) {
    const int64_t now = std::min(at_once, candidates - done);
    stream.read(piece.data(), now * width);
    for (int64_t c = 0; c < now; ++c) coder.add_candidate(piece.data() + c * width, codes.data() + c * configurable);
    sink.codes(std::span<const uint8_t>(codes).first(now * configurable), configurable);
    done += now;
  }
  stream.finish();
}

/// Codes the rows of an array that is in memory as a whole.
template <class T>
void code_all(const std::vector<T>& values, int64_t candidates, int64_t configurable, LayoutCoder& coder,
              const LayoutSink& sink) {
  const int64_t width = configurable * kLayoutFeatures;
  std::vector<double> row(width);
  std::vector<uint8_t> codes(configurable);
  for (int64_t c = 0; c < candidates; ++c) {
    const auto start = values.begin() + c * width;
    std::copy(start, start + width, row.begin());
    coder.add_candidate(row.data(), codes.data());
    sink.codes(codes, configurable);
  }
}

LayoutCandidates read_candidates(const NpzReader& file, std::vector<int32_t> configurable_nodes, int64_t candidates,
                                 const LayoutSink& sink) {
  const auto configurable = std::ssize(configurable_nodes);
  NpyStream stream =
      file.open("node_config_feat", {{candidates, configurable, kLayoutFeatures}, "(configs, configurable, 18)"});
  const NpyHeader& header = stream.header();
  LayoutCoder coder(std::move(configurable_nodes), stream.origin());
  // Only C-ordered floats occur in the public files; the rest is read whole, which is slower and needs memory.
  if (header.type.kind != NpyKind::floating) code_all(stream.read_all<int8_t>(), candidates, configurable, coder, sink);
  else if (header.fortran_order) code_all(stream.read_all<double>(), candidates, configurable, coder, sink);
  else if (header.type.size == 8) code_in_pieces<double>(stream, candidates, configurable, coder, sink);
  else code_in_pieces<float>(stream, candidates, configurable, coder, sink);
  return std::move(coder).finish(candidates);
}

}  // namespace

void describe_layout(const NpzReader& file, GroupHeader& header) {
  describe_hlo_graph(file, header);
  header.candidates = file.size("config_runtime", kRuntimeRule, 0);
  header.configurable = file.size("node_config_ids", kIdRule, 0);
}

Group read_layout(const NpzReader& file, const LayoutSink& sink) {
  Group group;
  group.kind = CandidateKind::layout;
  group.unit = RuntimeUnit::nanoseconds;
  const auto runtimes = read_runtimes(file, "config_runtime", kRuntimeRule);
  group.candidates = runtimes.size();
  if (runtimes.empty()) throw DataError("{}: no candidates, expected one or more", file.origin("config_runtime"));
  std::vector<double> labels(runtimes.begin(), runtimes.end());
  check_runtimes(labels, true, file.origin("config_runtime"));
  group.runtimes = std::move(labels);
  group.graphs = read_hlo_graph(file, sink.node_features);
  group.layout = read_candidates(file, read_configurable(file, group.graphs.nodes()), group.candidates, sink);
  if (file.has("node_splits")) group.node_splits = read_splits(file, group.graphs.nodes());
  return group;
}

Group read_layout(const NpzReader& file) {
  // An opened entry's shape is known to agree with its size in the archive.
  return read_whole([&](const LayoutSink& sink) { return read_layout(file, sink); }, file.open("node_feat").remaining(),
                    file.open("node_config_feat").remaining() / kLayoutFeatures);
}

namespace {

const ShapeRule kTileFeatureRule{{kAnySize, kTileFeatures}, "(configs, 24)"};

}  // namespace

void describe_tile(const NpzReader& file, GroupHeader& header) {
  describe_hlo_graph(file, header);
  header.candidates = file.size("config_feat", kTileFeatureRule, 0);
}

Group read_tile(const NpzReader& file) {
  Group group;
  group.kind = CandidateKind::tile;
  group.unit = RuntimeUnit::normalized;
  auto features = file.read<float>("config_feat", kTileFeatureRule);
  group.candidates = std::ssize(features) / kTileFeatures;
  if (group.candidates == 0) throw DataError("{}: no candidates, expected one or more", file.origin("config_feat"));
  for (size_t i = 0; i < features.size(); ++i)
    if (!std::isfinite(features[i]))
      throw DataError("{}: {} at candidate {}, column {}, expected finite numbers", file.origin("config_feat"),
                      features[i], i / kTileFeatures, i % kTileFeatures);
  const ShapeRule rule{{group.candidates}, "(configs,)"};
  const auto runtimes = read_runtimes(file, "config_runtime", rule);
  const auto normalizers = read_runtimes(file, "config_runtime_normalizers", rule);
  std::vector<double> labels(runtimes.size());
  for (size_t c = 0; c < labels.size(); ++c) {
    if (normalizers[c] <= 0)
      throw DataError("{}: {} at candidate {}, expected a positive number", file.origin("config_runtime_normalizers"),
                      normalizers[c], c);
    labels[c] = static_cast<double>(runtimes[c]) / normalizers[c];
  }
  check_runtimes(labels, true, file.origin("config_runtime"));
  group.tile_features = std::move(features);
  group.runtimes = std::move(labels);
  group.graphs = read_hlo_graph(file);
  return group;
}

namespace {

const ShapeRule kAnyList{{kAnySize}, "(any,)"};
constexpr int64_t kLoopKinds = 5;

/// Replaces indices into a table of names that the file holds by ours.
template <class Index, class Out, class Lookup>
std::vector<Out> translate(const NpzReader& file, const std::string& entry, const std::string& table, int64_t nodes,
                           Lookup&& lookup) {
  const auto names = file.read_text(table, kAnyList);
  std::vector<Out> ours;
  for (const auto& name : names) ours.push_back(static_cast<Out>(lookup(name)));
  const auto indices = file.read<Index>(entry, {{nodes}, "(nodes,)"});
  std::vector<Out> out(indices.size());
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] >= ours.size())
      throw DataError("{}: {} at node {}, but {} has {} names", file.origin(entry), indices[i], i, table, names.size());
    out[i] = ours[indices[i]];
  }
  return out;
}

std::vector<int64_t> read_graph_ptr(const NpzReader& file) {
  auto graph_ptr = file.read<int64_t>("graph_ptr", {{kAnySize}, "(graphs + 1,)"});
  if (graph_ptr.size() < 2 || graph_ptr[0] != 0)
    throw DataError("{}: {} values, expected two or more, the first one 0", file.origin("graph_ptr"), graph_ptr.size());
  for (size_t g = 1; g < graph_ptr.size(); ++g)
    if (graph_ptr[g] <= graph_ptr[g - 1])
      throw DataError("{}: {} after {}, expected ascending values (no graph is empty)", file.origin("graph_ptr"),
                      graph_ptr[g], graph_ptr[g - 1]);
  if (graph_ptr.back() > std::numeric_limits<int32_t>::max())
    throw DataError("{}: {} nodes, expected at most 2^31 - 1", file.origin("graph_ptr"), graph_ptr.back());
  return graph_ptr;
}

ProgramNodes read_trees(const NpzReader& file, int64_t nodes) {
  const ShapeRule rule{{nodes}, "(nodes,)"};
  ProgramNodes trees;
  trees.type = translate<uint8_t, uint8_t>(file, "node_type", "type_names", nodes, tir_type_id);
  trees.call_op = translate<uint8_t, uint8_t>(file, "call_op", "call_op_names", nodes, call_op_index);
  trees.parent = file.read<int32_t>("parent", rule);
  trees.extent = file.read<int64_t>("extent", rule);
  trees.loop_kind = file.read<int8_t>("loop_kind", rule);
  trees.value = file.read<double>("value", rule);
  trees.variable = file.read<int32_t>("variable", rule);
  trees.buffer = file.read<int32_t>("buffer", rule);
  trees.buffer_elements = file.read<int64_t>("buffer_elements", rule);
  return trees;
}

void check_node(const NpzReader& file, const ProgramNodes& m, size_t i, int64_t position) {
  const auto fail = [&](const char* entry, auto found, const std::string& expected) {
    throw DataError("{}: {} at node {}, expected {}", file.origin(entry), found, i, expected);
  };
  if (position == 0 && m.parent[i] != -1) fail("parent", m.parent[i], "-1: each graph starts with its root");
  if (position > 0 && (m.parent[i] < 0 || m.parent[i] >= position))
    fail("parent", m.parent[i], fmt::format("0 … {}: parents precede their children", position - 1));
  static const uint8_t loop = tir_type_id("For"), integer = tir_type_id("IntImm"), real = tir_type_id("FloatImm");
  if (m.extent[i] < 0) fail("extent", m.extent[i], "0 or more");
  if (m.buffer_elements[i] < 0) fail("buffer_elements", m.buffer_elements[i], "0 or more");
  const int lowest = m.type[i] == loop ? 0 : -1;
  if (m.loop_kind[i] < lowest || m.loop_kind[i] >= kLoopKinds)
    fail("loop_kind", static_cast<int>(m.loop_kind[i]), fmt::format("{} … {}", lowest, kLoopKinds - 1));
  if (std::isnan(m.value[i]) && (m.type[i] == integer || m.type[i] == real))
    fail("value", m.value[i], "a number: the node is an immediate");
}

}  // namespace

void describe_program(const NpzReader& file, GroupHeader& header) {
  header.graphs = file.size("graph_ptr", {{kAnySize}, "(graphs + 1,)"}, 0) - 1;
  if (header.graphs < 1) throw DataError("{}: no graphs, expected one or more", file.origin("graph_ptr"));
  header.nodes = file.size("node_type", {{kAnySize}, "(nodes,)"}, 0);
  header.edges = std::max<int64_t>(0, header.nodes - header.graphs);
  header.candidates = header.graphs;
  header.feature_count = ProgramColumns::count;
  header.node_type_count = kTirTypes;
}

ProgramNodes read_program_nodes(const NpzReader& file) {
  auto graph_ptr = read_graph_ptr(file);
  ProgramNodes trees = read_trees(file, graph_ptr.back());
  for (size_t g = 0; g + 1 < graph_ptr.size(); ++g)
    for (const int64_t i : entries_of(graph_ptr, g)) check_node(file, trees, i, i - graph_ptr[g]);
  if (std::find(trees.type.begin(), trees.type.end(), tir_type_id("For")) == trees.type.end())
    refuse_unknown_loops(file);
  trees.graph_ptr = std::move(graph_ptr);
  return trees;
}

Group read_program(const NpzReader& file, const Featurizer* featurizer) {
  Group group;
  group.kind = CandidateKind::program;
  group.unit = RuntimeUnit::seconds;
  ProgramNodes trees = read_program_nodes(file);
  group.candidates = trees.graphs();
  const ShapeRule rule{{group.candidates}, "(graphs,)"};
  auto runtimes = file.read<double>("runtime", rule);
  check_runtimes(runtimes, false, file.origin("runtime"));
  for (size_t g = 0; g < runtimes.size(); ++g)
    if (runtimes[g] > kLongestRuntime)
      throw DataError(
          "{}: run time {} of candidate {}, expected seconds of at most {:g}; leave out programs that failed",
          file.origin("runtime"), runtimes[g], g, kLongestRuntime);
  if (file.has("flop")) {
    auto flops = file.read<double>("flop", rule);
    for (size_t g = 0; g < flops.size(); ++g)
      if (!std::isfinite(flops[g]) || flops[g] < 0.0)
        throw DataError("{}: {} at graph {}, expected 0 or more", file.origin("flop"), flops[g], g);
    group.flops = std::move(flops);
  }
  group.candidate_ids = file.read_text("id", rule);
  group.runtimes = std::move(runtimes);
  group.graphs =
      featurizer ? featurizer->graphs(std::move(trees), group.flops.span(), "") : program_graphs(std::move(trees));
  return group;
}

}  // namespace foretime::data
