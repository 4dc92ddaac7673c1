#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/column_statistics.h"
#include "data/error.h"
#include "data/group.h"
#include "data/layout_sink.h"
#include "data/program_form.h"

namespace foretime::data {

/// What is known of a group without reading its arrays: sizes, and a fingerprint that changes with its contents.
struct GroupHeader {
  std::filesystem::path file;  // an .npz, HLO protobuf (.pb), or a packed collection
  int64_t member = -1;         // index inside a packed collection, -1 for other files
  std::string name;
  CandidateKind kind = CandidateKind::layout;
  Collection collection = Collection::none;  // from the path of the file, or as a packed collection noted it
  int64_t graphs = 0, nodes = 0, edges = 0, candidates = 0, configurable = 0, feature_count = 0;
  int64_t node_type_count = 0;  // node types are below this
  ProgramFormPtr form = {};     // of programs that are read from syntax trees; null: the trees as they are
  uint64_t fingerprint = 0;     // of names, shapes and checksums (CRC-32 of the members), not of the path
};

/// The groups that `patterns` name, sorted by name, headers only. A pattern is an .npz file, HLO protobuf (.pb), a
/// packed collection (.foretime), a folder (all of these below it) or a glob with * ? and {a,b}; relative ones start at
/// `root`. Where a name occurs with different contents in several of TpuGraphs' collections, all groups that have a
/// collection get their qualified names (data/collection.h). Throws DataError where a pattern matches nothing, a folder
/// is empty, a file is not of `kind`, or two groups have one name and different fingerprints. `admit`, where there is
/// one, is asked before each file is opened and refuses it by throwing. Programs in .npz files become graphs of `form`;
/// those of packed collections must be of it already.
using FileCheck = std::function<void(const std::filesystem::path& file)>;
std::vector<GroupHeader> list_groups(const std::vector<std::string>& patterns, const std::filesystem::path& root,
                                     CandidateKind kind, const FileCheck& admit = {}, const ProgramFormPtr& form = {});

/// Reads one group. Throws DataError for anything that its format does not allow: damaged or truncated files, missing
/// members, wrong types or shapes, ids or edges out of range, NaN features, sizes that overflow, headers that claim
/// more data than there is. Run times that are negative are refused; zeros are allowed only if all are zero (unlabelled
/// files).
Group load_group(const GroupHeader& header);
/// The same of a layout .npz or .pb whose large arrays go to `sink`: see read_layout.
Group load_group(const GroupHeader& header, const LayoutSink& sink);

/// What a run asks of all of its groups before it starts, without their graphs and layouts.
struct GroupSummary {
  Array<double> runtimes;                             // [candidates], as in Group
  Array<double> flops;                                // [candidates], or empty
  Array<uint64_t> configurations;                     // [candidates] configuration_hashes
  ColumnStatistics features, log_features;            // of the node features, and of their logarithms
  ColumnStatistics tile_features, log_tile_features;  // kind tile
};

/// Reads a packed group's summary, a few bytes a candidate, or reads an .npz as a whole and sums it up. Throws
/// DataError as load_group.
GroupSummary load_summary(const GroupHeader& header);
GroupSummary summarize(const Group& group);

}  // namespace foretime::data
