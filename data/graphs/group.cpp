#include "data/graphs/group.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "base/checksum.h"
#include "base/index_range.h"
#include "data/graphs/loop_graph_columns.h"

namespace foretime::data {
namespace {

constexpr std::array<std::string_view, kCollections> kCollectionNames = {
    "", "layout:xla:random", "layout:xla:default", "layout:nlp:random", "layout:nlp:default", "tile:xla"};

/// So that 0.0 and -0.0, which are equal, hash alike.
std::vector<float> without_negative_zeros(std::span<const float> values) {
  std::vector<float> out(values.begin(), values.end());
  for (float& value : out) value += 0.0f;
  return out;
}

/// Returns the hash of graph `g`: its node types, the first `columns` features of each node, and its edges.
uint64_t graph_hash(const GraphBlock& graphs, int64_t g, int64_t columns) {
  const auto nodes = entries_of(graphs.graph_ptr, g), edges = entries_of(graphs.edge_ptr, g);
  const int64_t first = nodes.first(), count = nodes.size();
  std::vector<int32_t> ends;
  for (const auto* side : {&graphs.edge_source, &graphs.edge_target})
    for (const int32_t node : side->subspan(edges.first(), edges.size())) ends.push_back(node - first);
  auto features =
      without_negative_zeros(graphs.node_features.subspan(first * graphs.feature_count, count * graphs.feature_count));
  if (columns < graphs.feature_count) {
    for (int64_t node = 0; node < count; ++node)
      std::copy_n(features.begin() + node * graphs.feature_count, columns, features.begin() + node * columns);
    features.resize(count * columns);
  }
  uint64_t hash = checksum_of(graphs.node_types.subspan(first, count));
  hash = checksum_of(std::span<const float>(features), hash);
  return checksum_of(std::span<const int32_t>(ends), hash);
}

uint64_t configuration_hash(const Group& group, int64_t c) {
  switch (group.kind) {
    case CandidateKind::layout: {
      const int64_t configurable = group.layout.configurable();
      return checksum_of(group.layout.codes.subspan(c * configurable, configurable));
    }
    case CandidateKind::tile: {
      const auto row = without_negative_zeros(group.tile_features.subspan(c * kTileFeatures, kTileFeatures));
      return checksum_of(std::span<const float>(row));
    }
    case CandidateKind::program: {
      const int64_t columns = group.graphs.feature_count;
      const bool with_machine = columns == kLoopGraphColumns || columns == kGpuGraphColumns;
      return graph_hash(group.graphs, c, with_machine ? kLoopGraphColumns - kMachineColumns : columns);
    }
  }
  return 0;
}

}  // namespace

std::string to_string(Collection collection) { return std::string(kCollectionNames[index_of(collection)]); }

Collection collection_named(std::string_view name) {
  for (size_t i = 1; i < kCollectionNames.size(); ++i)
    if (kCollectionNames[i] == name) return static_cast<Collection>(i);
  return Collection::none;
}

std::string collection_in(const std::filesystem::path& path) {
  std::vector<std::string> parts;
  for (const auto& part : path) parts.push_back(part.string());
  for (size_t i = 0; i + 2 < parts.size(); ++i) {
    if (parts[i] == "tile") return "tile:" + parts[i + 1];
    if (parts[i] == "layout" && i + 3 < parts.size()) return "layout:" + parts[i + 1] + ":" + parts[i + 2];
  }
  return "";
}

std::string qualified_name(Collection collection, std::string_view name) {
  if (collection == Collection::none) return std::string(name);
  return to_string(collection) + ":" + plain_name(name);
}

std::string plain_name(std::string_view name) {
  for (size_t i = 1; i < kCollectionNames.size(); ++i) {
    const auto prefix = kCollectionNames[i];
    if (name.starts_with(prefix) && name.size() > prefix.size() && name[prefix.size()] == ':')
      return std::string(name.substr(prefix.size() + 1));
  }
  return std::string(name);
}

const char* kind_name(CandidateKind kind) {
  constexpr const char* kNames[] = {"layout", "tile", "programs"};
  return kNames[index_of(kind)];
}

void GraphBlock::set_edges(std::vector<int32_t> sources, std::vector<int32_t> targets) {
  graph_ptr = std::vector<int64_t>{0, nodes()};
  edge_ptr = std::vector<int64_t>{0, std::ssize(sources)};
  edge_source = std::move(sources);
  edge_target = std::move(targets);
}

bool Group::labelled() const {
  return std::ranges::any_of(runtimes, [](double runtime) { return runtime != 0.0; });
}

uint64_t graph_fingerprint(const Group& group) {
  uint64_t fingerprint = 0;
  for (int64_t g = 0; g < group.graphs.graphs(); ++g) {
    const uint64_t both[] = {fingerprint, graph_hash(group.graphs, g, group.graphs.feature_count)};
    fingerprint = checksum_of(std::span<const uint64_t>(both));
  }
  return fingerprint;
}

std::vector<uint64_t> configuration_hashes(const Group& group) {
  std::vector<uint64_t> hashes(group.candidates);
  for (int64_t c = 0; c < group.candidates; ++c) hashes[c] = configuration_hash(group, c);
  return hashes;
}

DistinctCandidates distinct_candidates(const Group& group, std::span<const int64_t> candidates) {
  DistinctCandidates result;
  std::unordered_map<uint64_t, int64_t> known;
  known.reserve(candidates.size());
  result.place.reserve(candidates.size());
  for (const int64_t c : candidates) {
    const auto [at, fresh] = known.emplace(configuration_hash(group, c), std::ssize(result.ids));
    if (fresh) result.ids.push_back(c);
    result.place.push_back(at->second);
  }
  return result;
}

}  // namespace foretime::data
