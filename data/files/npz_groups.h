#pragma once

#include "data/files/npz_reader.h"
#include "data/graphs/group.h"
#include "data/graphs/group_header.h"
#include "data/graphs/layout_coder.h"
#include "data/graphs/program_nodes.h"

/// Reads groups, with one reader for each kind of .npz. `describe_*` fills a header's sizes from the entries' NPY
/// headers; `read_*` reads and checks everything but the name. All throw DataError `file: entry: found, expected`.
namespace foretime::data {

/// Fills the header of a file of a TpuGraphs layout collection.
void describe_layout(const NpzReader& file, GroupHeader& header);
/// Reads a layout group. The float32 `node_config_feat` is encoded while it is read.
Group read_layout(const NpzReader& file);
/// Reads a layout group. Passes its two large arrays to `sink` in pieces, first the features; both are empty in the
/// returned group. Memory does not grow with the candidates, nor with the features of a node.
Group read_layout(const NpzReader& file, const LayoutSink& sink);

/// Fills the header of a file of a TpuGraphs tile collection.
void describe_tile(const NpzReader& file, GroupHeader& header);
/// Reads a tile group. The label is config_runtime / config_runtime_normalizers.
Group read_tile(const NpzReader& file);

/// Fills the header of a file of measured tensor programs: TIR syntax trees, one for each candidate;
/// data/graphs/schema.h describes the features.
void describe_program(const NpzReader& file, GroupHeader& header);
/// Reads a program group. `featurizer` makes its graphs; if null, the syntax trees are the graphs.
Group read_program(const NpzReader& file, const Featurizer* featurizer = nullptr);
/// Reads and checks only the syntax trees.
ProgramNodes read_program_nodes(const NpzReader& file);

/// Fills the header fields that layout and tile files share.
void describe_hlo_graph(const NpzReader& file, GroupHeader& header);
/// Reads the graph of a layout or tile file: node_feat, node_opcode and edge_index (consumer, producer).
GraphBlock read_hlo_graph(const NpzReader& file);
/// Reads the graph of a layout or tile file. Passes the node features to `features` in pieces of whole rows; they are
/// empty in the graph.
GraphBlock read_hlo_graph(const NpzReader& file, const FeatureSink& features);

}  // namespace foretime::data
