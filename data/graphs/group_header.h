#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/array.h"
#include "data/graphs/group.h"
#include "data/graphs/program_nodes.h"

namespace foretime::data {

/// What scaling needs of a table of numbers, by column. Two tables' statistics add up: rows, sums and squares by
/// adding, minima and maxima by taking the smaller and the larger one.
struct ColumnStatistics {
  int64_t rows = 0;
  Array<double> sums, squares, minima, maxima;  // [columns]

  int64_t columns() const { return sums.size(); }
};

/// Takes rows in order, in pieces; the result does not depend on the pieces.
class ColumnAccumulator {
 public:
  /// `log`: of sign(x) log(1 + |x|) instead of x.
  ColumnAccumulator(int64_t columns, bool log);
  /// Whole rows, row-major.
  void add(std::span<const float> rows);
  /// Without rows, minima and maxima are infinity and -infinity.
  ColumnStatistics finish() &&;

 private:
  template <class Value>
  void add_as(std::span<const float> rows, Value value);

  bool log_;
  int64_t rows_ = 0;
  std::vector<double> sums_, squares_, minima_, maxima_;
};

ColumnStatistics column_statistics(std::span<const float> values, int64_t columns, bool log);

/// The sizes of a group; packed collections hold them in this order.
struct GroupSizes {
  int64_t candidates = 0, graphs = 0, nodes = 0, edges = 0, configurable = 0, feature_count = 0;
  int64_t node_type_count = 0;  // node types are below this
  bool operator==(const GroupSizes&) const = default;
};
GroupSizes sizes_of(const Group& group);

/// What is known of a group without reading its arrays: sizes, and a fingerprint that changes with its contents.
struct GroupHeader : GroupSizes {
  std::filesystem::path file;  // an .npz, HLO protobuf (.pb), or a packed collection
  int64_t member = -1;         // index inside a packed collection, -1 for other files
  std::string name;
  CandidateKind kind = CandidateKind::layout;
  Collection collection = Collection::none;  // from the path of the file, or as a packed collection noted it
  FeaturizerPtr featurizer = {};             // of programs that are read from syntax trees; null: the trees as they are
  uint64_t fingerprint = 0;                  // of names, shapes and checksums (CRC-32 of the members), not of the path
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
