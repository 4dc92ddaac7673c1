#include "server/targets.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/json_reader.h"
#include "data/frontends/hlo/hlo_groups.h"
#include "data/frontends/hlo/module_graph.h"
#include "data/frontends/loops/nest_program.h"
#include "data/graphs/group.h"
#include "data/graphs/schema.h"

namespace foretime::server {
namespace {

using Element = JsonReader::Element;
using Inside = JsonReader::Inside;

enum Field : uint8_t { kFeatures, kTypes, kEdges, kConfigurable, kCollection, kFields };
constexpr std::array<std::string_view, kFields> kNames = {"node_features", "node_types", "edges", "configurable_nodes",
                                                          "collection"};

/// Reads a graph in the terms of TpuGraphs' .npz files, without candidates (docs/how-to/serve.md): {"node_features":
/// [[…], …], "node_types": […], "edges": [[consumer, producer], …], "configurable_nodes": […], "collection":
/// "layout:xla:random"}. The last two are for layouts, and the last one is optional. Throws DataError; what
/// validate_group checks is left to it.
class GraphReader {
 public:
  GraphReader(JsonReader& json, data::CandidateKind kind, const data::HloLimits& limits)
      : json_(json), limits_(limits) {
    group_.name = "graph";
    group_.kind = kind;
  }

  data::Group read(const Element& root) {
    const bool layouts = group_.kind == data::CandidateKind::layout;
    std::array<Element, kFields> fields;
    std::array<bool, kFields> met{};
    for (const auto& [name, value] : json_.object(root, "an object with node_features, node_types, edges, …")) {
      const Inside inside(json_, name);
      const size_t which = std::find(kNames.begin(), kNames.end(), name) - kNames.begin();
      if (which == kFields || (!layouts && (which == kConfigurable || which == kCollection)))
        json_.fail("unknown field of a graph");
      json_.once(met.at(which));
      fields.at(which) = value;
    }
    for (size_t which = 0; which < kFields; ++which) {
      const bool needed = which != kCollection && (layouts || which != kConfigurable);
      if (needed && !met.at(which)) json_.fail(fmt::format("without {}", kNames.at(which)));
    }
    read_types(fields[kTypes]);
    read_features(fields[kFeatures]);
    read_edges(fields[kEdges]);
    if (layouts) read_configurable(fields[kConfigurable]);
    if (met[kCollection]) read_collection(fields[kCollection]);
    auto& graphs = group_.graphs;
    graphs.graph_ptr = std::vector<int64_t>{0, graphs.nodes()};
    graphs.edge_ptr = std::vector<int64_t>{0, graphs.edges()};
    return std::move(group_);
  }

 private:
  void read_types(const Element& list) {
    const Inside inside(json_, kNames[kTypes]);
    std::vector<uint8_t> types;
    for (const Element type : json_.list(list, "a list of HLO opcodes")) {
      if (std::ssize(types) == limits_.nodes) json_.fail(fmt::format("more than {} nodes", limits_.nodes));
      types.push_back(json_.integer(type, 0, data::kHloOpcodes - 1));
    }
    if (types.empty()) json_.fail("empty, expected at least one node");
    group_.graphs.node_types = std::move(types);
    group_.graphs.node_type_count = data::kHloOpcodes;
  }

  void read_features(const Element& list) {
    const Inside inside(json_, kNames[kFeatures]);
    const size_t nodes = group_.graphs.nodes();
    std::vector<float> features;
    features.reserve(nodes * data::kHloFeatures);
    int64_t node = 0;
    for (const Element row : json_.list(list, "a list of rows")) {
      const Inside at(json_, "row", node);
      const auto values = json_.list(row, "a list of numbers");
      if (std::ssize(values) != data::kHloFeatures)
        json_.fail(fmt::format("{} numbers, expected {}", values.size(), data::kHloFeatures));
      for (const Element value : values) features.push_back(json_.number(value));
      ++node;
    }
    if (node != group_.graphs.nodes())
      json_.fail(fmt::format("{} rows, expected one for each of {} nodes", node, nodes));
    group_.graphs.node_features = std::move(features);
    group_.graphs.feature_count = data::kHloFeatures;
  }

  int32_t read_node(const Element& element) const { return json_.integer(element, 0, group_.graphs.nodes() - 1); }

  void read_edges(const Element& list) {
    const Inside inside(json_, kNames[kEdges]);
    std::vector<int32_t> sources, targets;
    for (const Element edge : json_.list(list, "a list of [consumer, producer]")) {
      if (std::ssize(sources) == limits_.edges) json_.fail(fmt::format("more than {} edges", limits_.edges));
      const Inside at(json_, "edge", std::ssize(sources));
      const auto ends = json_.list(edge, "[consumer, producer]");
      if (ends.size() != 2) json_.fail(fmt::format("{} numbers, expected [consumer, producer]", ends.size()));
      targets.push_back(read_node(ends.at(0)));
      sources.push_back(read_node(ends.at(1)));
    }
    group_.graphs.edge_source = std::move(sources);
    group_.graphs.edge_target = std::move(targets);
  }

  void read_configurable(const Element& list) {
    const Inside inside(json_, kNames[kConfigurable]);
    std::vector<int32_t> nodes;
    for (const Element node : json_.list(list, "a list of nodes")) nodes.push_back(read_node(node));
    group_.layout.nodes = std::move(nodes);
  }

  void read_collection(const Element& name) {
    const Inside inside(json_, kNames[kCollection]);
    group_.collection = data::collection_named(json_.get<std::string_view>(name, "a name"));
    if (group_.collection == data::Collection::none)
      json_.fail(name, "one of TpuGraphs' collections, such as layout:xla:random");
  }

  JsonReader& json_;
  const data::HloLimits limits_;
  data::Group group_;
};

Scored to_scored(inference::ProgramScores scores) {
  return {.scores = std::move(scores.scores),
          .failures = std::move(scores.failures),
          .failed = scores.failed,
          .first_failure = std::move(scores.first_failure),
          .unknown_machines = std::move(scores.unknown_machines)};
}

}  // namespace

GraphTarget::GraphTarget(const ModelPtr& model, data::Group group, data::NodeNames names)
    : weight_(group.graphs.nodes() + group.graphs.edges() / kMeanEdgesPerNode),
      scorer_(model, std::move(group)),
      names_(std::move(names)),
      layouts_(model->kind() == inference::ModelKind::layout),
      joins_(!model->spec().compares_candidates) {}

std::shared_ptr<const GraphTarget> GraphTarget::open(const ModelPtr& model, const std::string& body, bool json,
                                                     int64_t most_nodes) {
  const auto kind = model->spec().kind;
  const auto made = [&](data::Group group, data::NodeNames names) {
    return std::shared_ptr<const GraphTarget>(new GraphTarget(model, std::move(group), std::move(names)));
  };
  const data::HloLimits limits{.nodes = most_nodes, .edges = kMeanEdgesPerNode * most_nodes};
  if (json) {
    JsonReader reader("graph");
    return made(GraphReader(reader, kind, limits).read(reader.parse(body)), {});
  }
  const data::HloFile file(body, "module");
  data::NodeNames names(file);
  return made(data::read_hlo_graph(file, file.modules().front(), kind, limits), std::move(names));
}

Scored GraphTarget::score(const Work& work) const {
  return {.scores =
              layouts_ ? scorer_.score_layouts(work.layouts, work.count) : scorer_.score_tiles(work.tiles, work.count)};
}

WorkloadTarget::WorkloadTarget(const ModelPtr& model, std::string_view compute_dag)
    : scorer_(model, compute_dag), operations_(scorer_.dag().flops), joins_(!model->spec().compares_candidates) {}

Scored WorkloadTarget::score(const Work& work) const { return to_scored(scorer_.score(work.texts)); }

Scored TirTarget::score(const Work& work) const { return to_scored(inference::score_tir(*model_, work.texts)); }

}  // namespace foretime::server
