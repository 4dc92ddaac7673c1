#include <algorithm>

#include <fmt/format.h>

#include "data/files/npz_groups.h"
#include "data/graphs/layout_coder.h"

namespace foretime::data {
namespace {

const ShapeRule kRuntimeRule{{kAnySize}, "(configs,)"};
const ShapeRule kIdRule{{kAnySize}, "(configurable,)"};
constexpr int64_t kPieceBytes = 1 << 20;  // of node_config_feat at once: fits the second-level cache

std::vector<int32_t> read_configurable(const NpzReader& file, int64_t nodes) {
  const auto ids = file.read<int64_t>("node_config_ids", kIdRule);
  std::vector<int32_t> configurable;
  for (const int64_t id : ids) {
    if (id < 0 || id >= nodes)
      throw DataError(fmt::format("{}: node {}, expected 0 … {}", file.origin("node_config_ids"), id, nodes - 1));
    if (!configurable.empty() && id <= configurable.back())
      throw DataError(fmt::format("{}: node {} after {}, expected ascending ids", file.origin("node_config_ids"), id,
                                  configurable.back()));
    configurable.push_back(static_cast<int32_t>(id));
  }
  return configurable;
}

std::vector<int64_t> read_splits(const NpzReader& file, int64_t nodes) {
  NpyStream stream = file.open("node_splits");
  const auto& shape = stream.header().shape;
  if (shape.size() != 1 && !(shape.size() == 2 && shape[0] == 1))
    throw DataError(fmt::format("{}: shape {}, expected (1, k) or (k,)", stream.origin(), shape_text(shape)));
  auto splits = stream.read_all<int64_t>();
  for (size_t i = 0; i < splits.size(); ++i) {
    if (splits[i] < 0 || splits[i] > nodes || (i > 0 && splits[i] < splits[i - 1]))
      throw DataError(fmt::format("{}: {} at position {}, expected ascending values from 0 to {}", stream.origin(),
                                  splits[i], i, nodes));
  }
  return splits;
}

/// Streams the candidates through the coder, a few at a time.
template <class T>
void code_in_pieces(NpyStream& stream, int64_t candidates, int64_t configurable, LayoutCoder& coder,
                    const LayoutSink& sink) {
  const int64_t width = configurable * kLayoutFeatures;
  const int64_t at_once = std::max<int64_t>(1, kPieceBytes / std::max<int64_t>(1, width * int64_t{sizeof(T)}));
  std::vector<T> piece(static_cast<size_t>(std::min(at_once, candidates) * width));
  std::vector<uint8_t> codes(static_cast<size_t>(std::min(at_once, candidates) * configurable));
  for (int64_t done = 0; done < candidates;) {
    const int64_t now = std::min(at_once, candidates - done);
    stream.read(piece.data(), now * width);
    for (int64_t c = 0; c < now; ++c) coder.add_candidate(piece.data() + c * width, codes.data() + c * configurable);
    sink.codes(std::span<const uint8_t>(codes).first(static_cast<size_t>(now * configurable)), configurable);
    done += now;
  }
  stream.finish();
}

/// Codes the rows of an array that is in memory as a whole.
template <class T>
void code_all(const std::vector<T>& values, int64_t candidates, int64_t configurable, LayoutCoder& coder,
              const LayoutSink& sink) {
  const int64_t width = configurable * kLayoutFeatures;
  std::vector<double> row(static_cast<size_t>(width));
  std::vector<uint8_t> codes(static_cast<size_t>(configurable));
  for (int64_t c = 0; c < candidates; ++c) {
    const auto start = values.begin() + c * width;
    std::copy(start, start + width, row.begin());
    coder.add_candidate(row.data(), codes.data());
    sink.codes(codes, configurable);
  }
}

LayoutCandidates read_candidates(const NpzReader& file, std::vector<int32_t> configurable_nodes, int64_t candidates,
                                 const LayoutSink& sink) {
  const auto configurable = static_cast<int64_t>(configurable_nodes.size());
  NpyStream stream =
      file.open("node_config_feat", {{candidates, configurable, kLayoutFeatures}, "(configs, configurable, 18)"});
  const NpyHeader& header = stream.header();
  LayoutCoder coder(std::move(configurable_nodes), stream.origin());
  // Only C-ordered floats occur in the public files; the rest is read whole, which is slower and needs memory.
  if (header.type.kind != NpyKind::floating)
    code_all(stream.read_all<int8_t>(), candidates, configurable, coder, sink);
  else if (header.fortran_order)
    code_all(stream.read_all<double>(), candidates, configurable, coder, sink);
  else if (header.type.size == 8)
    code_in_pieces<double>(stream, candidates, configurable, coder, sink);
  else
    code_in_pieces<float>(stream, candidates, configurable, coder, sink);
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
  const auto runtimes = file.read<int64_t>("config_runtime", kRuntimeRule);
  group.candidates = static_cast<int64_t>(runtimes.size());
  if (runtimes.empty())
    throw DataError(fmt::format("{}: no candidates, expected one or more", file.origin("config_runtime")));
  std::vector<double> labels(runtimes.begin(), runtimes.end());
  check_runtimes(labels, true, file.origin("config_runtime"));
  group.runtimes = std::move(labels);
  group.graphs = read_hlo_graph(file, sink.node_features);
  group.layout = read_candidates(file, read_configurable(file, group.graphs.nodes()), group.candidates, sink);
  if (file.has("node_splits")) group.node_splits = read_splits(file, group.graphs.nodes());
  return group;
}

Group read_layout(const NpzReader& file) {
  std::vector<float> features;
  std::vector<uint8_t> codes;
  // An opened entry's shape is known to agree with its size in the archive.
  features.reserve(static_cast<size_t>(file.open("node_feat").remaining()));
  codes.reserve(static_cast<size_t>(file.open("node_config_feat").remaining() / kLayoutFeatures));
  const auto append = [](auto& all, auto piece) { all.insert(all.end(), piece.begin(), piece.end()); };
  Group group = read_layout(file, LayoutSink{[&](std::span<const float> piece, int64_t) { append(features, piece); },
                                             [&](std::span<const uint8_t> piece, int64_t) { append(codes, piece); }});
  group.graphs.node_features = std::move(features);
  group.layout.codes = std::move(codes);
  return group;
}

}  // namespace foretime::data
