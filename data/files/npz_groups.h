#pragma once

#include "data/files/npz_reader.h"
#include "data/graphs/group.h"
#include "data/graphs/group_header.h"
#include "data/graphs/layout_coder.h"
#include "data/graphs/program_nodes.h"

/// One reader for each kind of .npz. `describe_*` fills a header's sizes from the entries' NPY headers; `read_*` reads
/// and checks everything but the name. All throw DataError `file: entry: found, expected`.
namespace foretime::data {

/// TpuGraphs layout collections. The float32 `node_config_feat` streams by: rows become codes as they pass.
void describe_layout(const NpzReader& file, GroupHeader& header);
Group read_layout(const NpzReader& file);
/// Reads a layout group whose two large arrays go to `sink` while they are read, first the features, and are empty in
/// the group: memory does not grow with the candidates, and with the nodes only by what a node has beside its features.
Group read_layout(const NpzReader& file, const LayoutSink& sink);

/// TpuGraphs tile collections. The label is config_runtime / config_runtime_normalizers.
void describe_tile(const NpzReader& file, GroupHeader& header);
Group read_tile(const NpzReader& file);

/// Measured tensor programs: TIR syntax trees, one a candidate; data/graphs/schema.h says what the features are.
void describe_program(const NpzReader& file, GroupHeader& header);
/// Its graphs are of `featurizer`, or the trees themselves.
Group read_program(const NpzReader& file, const Featurizer* featurizer = nullptr);
/// Its trees alone, checked.
ProgramNodes read_program_nodes(const NpzReader& file);

/// What layout and tile files share: node_feat, node_opcode and edge_index (consumer, producer), as one graph.
void describe_hlo_graph(const NpzReader& file, GroupHeader& header);
GraphBlock read_hlo_graph(const NpzReader& file);
/// The node features go to `features` in pieces of whole rows, and are empty in the graph.
GraphBlock read_hlo_graph(const NpzReader& file, const FeatureSink& features);

}  // namespace foretime::data
