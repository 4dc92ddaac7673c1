#include <algorithm>

#include <fmt/format.h>

#include "data/layout_coder.h"
#include "data/npz_groups.h"

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

/// Streams `candidates` candidates of `width` numbers each through the coder, a few at a time.
template <class T>
void code_in_pieces(NpyStream& stream, int64_t candidates, int64_t width, LayoutCoder& coder) {
  const int64_t at_once = std::max<int64_t>(1, kPieceBytes / std::max<int64_t>(1, width * int64_t{sizeof(T)}));
  std::vector<T> piece(static_cast<size_t>(std::min(at_once, candidates) * width));
  for (int64_t done = 0; done < candidates;) {
    const int64_t now = std::min(at_once, candidates - done);
    stream.read(piece.data(), now * width);
    for (int64_t c = 0; c < now; ++c) coder.add_candidate(piece.data() + c * width);
    done += now;
  }
  stream.finish();
}

LayoutCandidates read_candidates(const NpzReader& file, std::vector<int32_t> configurable, int64_t candidates) {
  const auto nodes = static_cast<int64_t>(configurable.size());
  NpyStream stream =
      file.open("node_config_feat", {{candidates, nodes, kLayoutFeatures}, "(configs, configurable, 18)"});
  const NpyHeader& header = stream.header();
  LayoutCoder coder(std::move(configurable), stream.origin());
  const int64_t width = nodes * kLayoutFeatures;
  const auto code_all = [&](const auto& values) {
    std::vector<double> row(static_cast<size_t>(width));
    for (int64_t c = 0; c < candidates; ++c) {
      const auto start = values.begin() + c * width;
      std::copy(start, start + width, row.begin());
      coder.add_candidate(row.data());
    }
  };
  // Only C-ordered floats occur in the public files; the rest is read whole, which is slower and needs memory.
  if (header.type.kind != NpyKind::floating)
    code_all(stream.read_all<int8_t>());
  else if (header.fortran_order)
    code_all(stream.read_all<double>());
  else if (header.type.size == 8)
    code_in_pieces<double>(stream, candidates, width, coder);
  else
    code_in_pieces<float>(stream, candidates, width, coder);
  return std::move(coder).finish(candidates);
}

}  // namespace

void describe_layout(const NpzReader& file, GroupHeader& header) {
  describe_hlo_graph(file, header);
  header.candidates = file.size("config_runtime", kRuntimeRule, 0);
  header.configurable = file.size("node_config_ids", kIdRule, 0);
}

Group read_layout(const NpzReader& file) {
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
  group.graphs = read_hlo_graph(file);
  group.layout = read_candidates(file, read_configurable(file, group.graphs.nodes()), group.candidates);
  if (file.has("node_splits")) group.node_splits = read_splits(file, group.graphs.nodes());
  return group;
}

}  // namespace foretime::data
