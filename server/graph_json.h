#pragma once

#include "base/json_reader.h"
#include "data/frontends/hlo/module_graph.h"
#include "data/graphs/group.h"

namespace foretime::server {

/// A graph in the terms of TpuGraphs' .npz files, without candidates (docs/how-to/serve.md):
/// {"node_features": [[…], …], "node_types": […], "edges": [[consumer, producer], …], "configurable_nodes": […],
///  "collection": "layout:xla:random"}; the last two are for layouts, and the very last need not be there. Throws
/// DataError; what validate_group checks is left to it.
data::Group read_graph_json(JsonReader& reader, const simdjson::dom::element& root, data::CandidateKind kind,
                            const data::HloLimits& limits);

}  // namespace foretime::server
