#pragma once

#include "data/files/npz_reader.h"
#include "data/graphs/group.h"
#include "data/graphs/group_header.h"
#include "data/graphs/layout_coder.h"
#include "data/graphs/program_nodes.h"

/// Reads groups, with one reader for each kind of .npz. `describe_*` sets only the GroupSizes of a header, from the
/// entries' NPY headers. `read_*` reads and checks a group, whose name and collection remain to be set. All throw
/// DataError `file: entry: found, expected`, and StorageError if the storage fails.
namespace foretime::data {

/// Sets the sizes in the header of a TpuGraphs layout file.
void describe_layout(const NpzReader& file, GroupHeader& header);
/// Reads a layout group. Its run times must be whole nanoseconds above 0, or all 0 (unlabelled).
Group read_layout(const NpzReader& file);
/// Reads a layout group. Passes the node features, then the layout codes, to `sink` in pieces; both are empty in the
/// returned group. If the file has them as floats in C order, memory grows with neither of them.
Group read_layout(const NpzReader& file, const LayoutSink& sink);

/// Sets the sizes in the header of a TpuGraphs tile file.
void describe_tile(const NpzReader& file, GroupHeader& header);
/// Reads a tile group. Its run times are config_runtime / config_runtime_normalizers, all above 0 or all 0.
Group read_tile(const NpzReader& file);

/// Sets the sizes in the header of a file of measured tensor programs: TIR syntax trees, one for each candidate. They
/// are the sizes of graphs that are the syntax trees themselves (data/graphs/schema.h), without a featurizer.
void describe_program(const NpzReader& file, GroupHeader& header);
/// Reads a program group, whose run times must be above 0 and at most kLongestRuntime seconds. `featurizer` makes its
/// graphs from the syntax trees; null: the trees are the graphs.
Group read_program(const NpzReader& file, const Featurizer* featurizer = nullptr);
/// Reads and checks only the syntax trees of a program file. Also throws for unknown loops (refuse_unknown_loops).
ProgramNodes read_program_nodes(const NpzReader& file);

/// Sets the sizes of the graph, which layout and tile files share, in a header.
void describe_hlo_graph(const NpzReader& file, GroupHeader& header);
/// Reads the graph of a layout or tile file: node_feat, node_opcode and edge_index (consumer, producer).
GraphBlock read_hlo_graph(const NpzReader& file);
/// Reads the same graph, but passes the node features to `features` in pieces of whole rows, and returns it without.
GraphBlock read_hlo_graph(const NpzReader& file, const FeatureSink& features);

}  // namespace foretime::data
