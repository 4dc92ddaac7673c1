#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/array.h"

namespace foretime::data {

/// Lists the collections of TpuGraphs, by the source of the graphs and by the search for configurations.
enum class Collection : uint8_t {
  none = 0,  // any other data
  layout_xla_random = 1,
  layout_xla_default = 2,
  layout_nlp_random = 3,
  layout_nlp_default = 4,
  tile_xla = 5,
};
constexpr int64_t kCollections = 6;

/// Returns the contest's name, such as "layout:xla:random"; empty for none.
std::string to_string(Collection collection);
/// Returns the collection with this name; none for any other name.
Collection collection_named(std::string_view name);
/// Returns the text "layout:xla:random" or "tile:xla" for a path with folders …/layout/xla/random/… or …/tile/xla/…;
/// the names after layout and tile may be any. Empty for another path.
std::string collection_in(const std::filesystem::path& path);

/// Returns COLLECTION:NAME ("layout:xla:random:name"), which is unique even if several collections have graphs of one
/// name; a collection that `name` already has is replaced. Returns `name` unchanged for Collection::none.
std::string qualified_name(Collection collection, std::string_view name);
/// Returns `name` without the collection that qualified_name puts before it, if any.
std::string plain_name(std::string_view name);

/// Says where the candidates of a group differ.
enum class CandidateKind : uint8_t {
  layout = 0,   // candidates differ at the configurable nodes of one graph
  tile = 1,     // candidates differ for one graph as a whole
  program = 2,  // candidates differ in their graphs: candidate c is graph c
};
/// Returns the value of the setting data.format for a kind: layout, tile or programs.
const char* kind_name(CandidateKind kind);

/// Gives the unit of `Group::runtimes`.
enum class RuntimeUnit : uint8_t {
  nanoseconds = 0,  // layout: whole numbers, exact in a double up to 2^53
  seconds = 1,      // measured tensor programs
  normalized = 2,   // tile: config_runtime / config_runtime_normalizers; a packed table: any unit
};

constexpr int64_t kLayoutFeatures = 18;  // output, input and kernel layout of a configurable node, 6 dimensions each
constexpr int64_t kTileFeatures = 24;    // kernel, output and input bounds: 6 dimensions, sum and product each
constexpr int64_t kHloFeatures = 140;    // TpuGraphs' node features

/// Holds one or more program graphs in common arrays. Node ids count through the block.
struct GraphBlock {
  int64_t feature_count = 0;
  int64_t node_type_count = 0;  // node types (HLO opcodes, TIR types) are below this number
  Array<int64_t> graph_ptr;     // [graphs + 1] nodes of graph g are graph_ptr[g] … graph_ptr[g + 1] - 1
  Array<int64_t> edge_ptr;      // [graphs + 1] edges of graph g are edge_ptr[g] … edge_ptr[g + 1] - 1
  Array<float> node_features;   // [nodes, feature_count], unscaled
  Array<uint8_t> node_types;    // [nodes]
  Array<int32_t> edge_source;   // [edges] producer of a tensor; child in a syntax tree
  Array<int32_t> edge_target;   // [edges] consumer of the tensor; parent in a syntax tree

  int64_t graphs() const { return graph_ptr.empty() ? 0 : graph_ptr.size() - 1; }
  int64_t nodes() const { return node_types.size(); }
  int64_t edges() const { return edge_source.size(); }
  /// Makes all nodes, whose types must be set before, one graph with the edges sources[i] to targets[i].
  void set_edges(std::vector<int32_t> sources, std::vector<int32_t> targets);
};

/// Holds the layouts of all candidates as one-byte codes: each configurable node has a table of its distinct layout
/// rows. The layout features of candidate c at configurable node j are rows[(row_ptr[j] + codes[c * configurable + j])
/// * 18 …].
struct LayoutCandidates {
  Array<int32_t> nodes;    // [configurable] node ids, ascending
  Array<int64_t> row_ptr;  // [configurable + 1] first row of each node in `rows`, and the end; 1 to 256 rows a node
  Array<int8_t> rows;      // [distinct rows, 18]
  Array<uint8_t> codes;    // [candidates, configurable]

  int64_t configurable() const { return nodes.size(); }
};

/// Holds candidates that are ranked together: of a TpuGraphs graph its configurations, of a workload its schedules.
struct Group {
  std::string name;  // file name without its extension (alexnet_train_batch_32), or the workload of packed records
  CandidateKind kind = CandidateKind::layout;
  Collection collection = Collection::none;
  RuntimeUnit unit = RuntimeUnit::nanoseconds;
  int64_t candidates = 0;      // number of candidates
  GraphBlock graphs;           // single graph, or one for each candidate (kind program)
  LayoutCandidates layout;     // kind layout; otherwise empty
  Array<float> tile_features;  // [candidates, 24], kind tile
  // [candidates] run times in `unit`; all 0 if the file has no labels. Infinity, only for measured programs, means
  // that the program did not build or run in time; it ranks behind all others.
  Array<double> runtimes;
  Array<double> flops;                     // [candidates] arithmetic operations; empty if unknown
  Array<int64_t> node_splits;              // layout: starts of the HLO computations and the end; otherwise empty
  std::vector<std::string> candidate_ids;  // kind program: names from the file; otherwise empty

  /// Returns whether the group has run times; false for the published test splits, whose run times are all 0.
  bool labelled() const;
};

/// Returns a hash of all graphs of a group: node types, features and edges, without layouts, tile features, run times.
uint64_t graph_fingerprint(const Group& group);

/// Returns a hash of each candidate's configuration, [candidates], equal for duplicates. Candidates of a layout group
/// are duplicates if their codes are equal, of a tile group if their tile features are equal. Candidates of a program
/// group are duplicates if node types, edges and node features of their graphs are equal; the columns of loop graphs
/// that describe the machine and the GPU do not count (data/graphs/loop_graph_columns.h).
std::vector<uint64_t> configuration_hashes(const Group& group);

/// Maps candidates to distinct configurations.
struct DistinctCandidates {
  std::vector<int64_t> ids;    // the first candidate of each configuration, in the order given
  std::vector<int64_t> place;  // [given candidates] index into ids
};

/// Groups the given candidates, indices into the group, by configuration (configuration_hashes). Candidates of one
/// configuration have the same score.
DistinctCandidates distinct_candidates(const Group& group, std::span<const int64_t> candidates);

}  // namespace foretime::data
