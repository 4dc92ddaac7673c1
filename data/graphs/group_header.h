#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/array.h"
#include "data/graphs/column_statistics.h"
#include "data/graphs/featurizer.h"
#include "data/graphs/group.h"

namespace foretime::data {

/// What is known of a group without reading its arrays: sizes, and a fingerprint that changes with its contents.
struct GroupHeader {
  std::filesystem::path file;  // an .npz, HLO protobuf (.pb), or a packed collection
  int64_t member = -1;         // index inside a packed collection, -1 for other files
  std::string name;
  CandidateKind kind = CandidateKind::layout;
  Collection collection = Collection::none;  // from the path of the file, or as a packed collection noted it
  int64_t graphs = 0, nodes = 0, edges = 0, candidates = 0, configurable = 0, feature_count = 0;
  int64_t node_type_count = 0;    // node types are below this
  FeaturizerPtr featurizer = {};  // of programs that are read from syntax trees; null: the trees as they are
  uint64_t fingerprint = 0;       // of names, shapes and checksums (CRC-32 of the members), not of the path
};

/// What a run asks of all of its groups before it starts, without their graphs and layouts.
struct GroupSummary {
  Array<double> runtimes;                             // [candidates], as in Group
  Array<double> flops;                                // [candidates], or empty
  Array<uint64_t> configurations;                     // [candidates] configuration_hashes
  ColumnStatistics features, log_features;            // of the node features, and of their logarithms
  ColumnStatistics tile_features, log_tile_features;  // kind tile
};

/// Sums up a group that has been read.
GroupSummary summarize(const Group& group);

}  // namespace foretime::data
