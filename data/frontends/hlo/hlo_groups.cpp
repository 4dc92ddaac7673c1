#include "data/frontends/hlo/hlo_groups.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/checksum.h"
#include "base/error.h"
#include "data/files/file_form.h"

namespace foretime::data {
namespace {

/// Configurable nodes in ascending order, and the place in a run of each.
struct LayoutNodes {
  std::vector<int32_t> nodes;
  std::vector<size_t> place;
};

LayoutNodes layout_nodes(const HloSource& source, const std::vector<int64_t>& given, int64_t nodes) {
  LayoutNodes sorted;
  sorted.place.resize(given.size());
  std::iota(sorted.place.begin(), sorted.place.end(), size_t{0});
  std::ranges::sort(sorted.place, [&](size_t a, size_t b) { return given[a] < given[b]; });
  for (const size_t place : sorted.place) {
    const int64_t node = given[place];
    if (node < 0 || node >= nodes)
      source.fail(fmt::format("config_index_to_node: node {}, expected 0 … {}", node, nodes - 1));
    if (!sorted.nodes.empty() && node == sorted.nodes.back())
      source.fail(fmt::format("config_index_to_node: node {} twice, expected distinct nodes", node));
    sorted.nodes.push_back(node);
  }
  return sorted;
}

void read_layouts(const HloSource& source, const TuningOutline& tuning, const std::vector<std::string_view>& runs,
                  const LayoutSink* sink, Group& group, std::vector<int32_t> by_opcode) {
  LayoutNodes sorted = layout_nodes(source, tuning.layout_nodes, group.graphs.nodes());
  if (tuning.layout_nodes.empty() && runs.empty()) {
    sorted.nodes = std::move(by_opcode);
    sorted.place.resize(sorted.nodes.size());
    std::iota(sorted.place.begin(), sorted.place.end(), size_t{0});
  }
  const auto configurable = std::ssize(sorted.nodes);
  if (configurable == 0 && !runs.empty()) source.fail("runs with layouts, but config_index_to_node is empty");
  const size_t width = configurable * kLayoutFeatures;
  std::vector<float> as_given(width, -1.0f), rows(width);
  std::vector<uint8_t> codes(configurable), all;
  LayoutCoder coder(std::move(sorted.nodes), source.name + ": layouts");
  for (int64_t c = 0; c < group.candidates; ++c) {
    if (!runs.empty()) read_layout_features(source, runs[c], configurable, as_given.data());
    for (size_t j = 0; j < sorted.place.size(); ++j)
      std::copy_n(as_given.begin() + static_cast<int64_t>(sorted.place[j]) * kLayoutFeatures, kLayoutFeatures,
                  rows.begin() + j * kLayoutFeatures);
    coder.add_candidate(rows.data(), codes.data());
    if (sink != nullptr) sink->codes(codes, configurable);
    else all.insert(all.end(), codes.begin(), codes.end());
  }
  group.layout = std::move(coder).finish(group.candidates);
  group.layout.codes = std::move(all);
}

void read_tiles(const HloSource& source, const TuningCandidates& candidates, Group& group) {
  std::vector<float> features(candidates.runs.size() * kTileFeatures);
  for (size_t c = 0; c < candidates.runs.size(); ++c)
    read_tile_features(source, candidates.runs[c], features.data() + c * kTileFeatures);
  group.tile_features = std::move(features);
}

bool is_labelled(const TuningCandidates& candidates) {
  return !candidates.runtimes.empty() && candidates.runtimes.front() > 0;
}

/// Returns why the runs of a module do not form a group; empty for modules without runs.
const char* what_is_missing(const TuningOutline& tuning, const TuningCandidates& candidates) {
  if (tuning.runs.empty()) return "";
  if (candidates.runs.empty()) return "all of its runs failed";
  if (candidates.kind == CandidateKind::tile && is_labelled(candidates) && candidates.default_runtime == 0)
    return "none of its measured tiles is marked as the default, whose run time normalises the others";
  return "";
}

/// Reads the graph into `group`, with its features unless `sink` takes them; returns what else is known of it.
HloGraph read_graph(const HloFile& file, const TuningOutline& tuning, const HloLimits& limits, const LayoutSink* sink,
                    Group& group) {
  std::vector<float> features;
  const FeatureSink keep = [&](std::span<const float> rows, int64_t) {
    features.insert(features.end(), rows.begin(), rows.end());
  };
  HloGraph graph =
      read_module_graph(file.source(), tuning.module, limits, sink != nullptr ? sink->node_features : keep);
  group.graphs = std::move(graph.graph);
  group.graphs.node_features = std::move(features);
  return graph;
}

GroupHeader header_of(const HloFile& file, const HloFile::Module& module, const HloLimits& limits) {
  const TuningOutline tuning = file.outline(module);
  const HloGraph graph = read_module_graph(file.source(), tuning.module, limits);
  const TuningCandidates candidates = choose_candidates(file.source(), tuning);
  GroupHeader header;
  header.file = file.source().name;
  header.name = module.name;
  header.kind = candidates.kind;
  header.collection = collection_named(collection_in(header.file));
  header.graphs = 1;
  header.nodes = graph.graph.nodes();
  header.edges = graph.graph.edges();
  header.candidates = std::max<int64_t>(1, std::ssize(candidates.runs));
  if (candidates.kind == CandidateKind::layout) {
    const bool named = !tuning.layout_nodes.empty() || !candidates.runs.empty();
    header.configurable = named ? tuning.layout_nodes.size() : graph.layout_nodes.size();
  }
  header.feature_count = graph.graph.feature_count;
  header.node_type_count = graph.graph.node_type_count;
  header.fingerprint = checksum_of(std::span<const char>(module.bytes));
  return header;
}

}  // namespace

Group load_hlo_group(const GroupHeader& header, const LayoutSink* sink) {
  const HloFile file(header.file);
  for (const auto& module : file.modules()) {
    if (module.name != header.name && module.name != plain_name(header.name)) continue;
    if (checksum_of(std::span<const char>(module.bytes)) != header.fingerprint) break;
    Group group = read_hlo_group(file, module, {}, sink);
    group.name = header.name;
    group.collection = header.collection;
    return group;
  }
  throw DataError("{}: group {}: has changed since it was listed", header.file.string(), header.name);
}

bool is_hlo_file(const std::filesystem::path& path) {
  const auto form = form_of(path);
  return form == FileForm::hlo || (form == FileForm::unknown && path.extension() == ".pb");
}

Group read_hlo_group(const HloFile& file, const HloFile::Module& module, const HloLimits& limits,
                     const LayoutSink* sink) {
  const HloSource& source = file.source();
  const TuningOutline tuning = file.outline(module);
  const TuningCandidates candidates = choose_candidates(source, tuning);
  if (const std::string missing = what_is_missing(tuning, candidates); !missing.empty())
    source.fail(fmt::format("module {}: {}", module.name, missing));

  Group group;
  group.name = module.name;
  group.kind = candidates.kind;
  const bool without_runs = tuning.runs.empty();
  group.candidates = without_runs ? 1 : std::ssize(candidates.runtimes);

  if (candidates.kind != CandidateKind::layout) sink = nullptr;
  HloGraph graph = read_graph(file, tuning, limits, sink, group);

  int64_t normalizer = 1;
  if (candidates.kind == CandidateKind::tile) {
    group.unit = RuntimeUnit::normalized;
    if (is_labelled(candidates)) normalizer = candidates.default_runtime;
    read_tiles(source, candidates, group);
  } else {
    group.unit = RuntimeUnit::nanoseconds;
    group.node_splits = std::move(graph.node_splits);
    read_layouts(source, tuning, candidates.runs, sink, group, std::move(graph.layout_nodes));
  }
  std::vector<double> labels;
  for (const int64_t runtime : candidates.runtimes) labels.push_back(static_cast<double>(runtime) / normalizer);
  if (without_runs) labels = {0.0};
  group.runtimes = std::move(labels);
  return group;
}

Group read_hlo_graph(const HloFile& file, const HloFile::Module& module, CandidateKind kind, const HloLimits& limits) {
  const TuningOutline tuning = file.outline(module);
  Group group;
  group.name = module.name;
  group.kind = kind;
  HloGraph graph = read_graph(file, tuning, limits, nullptr, group);
  if (kind != CandidateKind::layout) return group;
  group.node_splits = std::move(graph.node_splits);
  auto named = layout_nodes(file.source(), tuning.layout_nodes, group.graphs.nodes()).nodes;
  group.layout.nodes = tuning.layout_nodes.empty() ? std::move(graph.layout_nodes) : std::move(named);
  return group;
}

std::string skip_reason_of(const HloFile& file, const HloFile::Module& module) {
  if (file.message() != HloMessage::tuning) return "";
  const TuningOutline tuning = file.outline(module);
  if (tuning.runs.empty()) return "it has no runs";
  return what_is_missing(tuning, choose_candidates(file.source(), tuning));
}

std::vector<HloFile::Module> groups_of(const HloFile& file) {
  std::vector<HloFile::Module> groups;
  for (const auto& module : file.modules())
    if (skip_reason_of(file, module).empty()) groups.push_back(module);
  if (groups.empty())
    file.source().fail(fmt::format("none of its {} modules has runs that are candidates", file.modules().size()));
  return groups;
}

std::vector<GroupHeader> hlo_headers(const std::filesystem::path& path) {
  const HloFile file(path);
  std::vector<GroupHeader> headers;
  for (const auto& module : groups_of(file)) headers.push_back(header_of(file, module, {}));
  return headers;
}

}  // namespace foretime::data
