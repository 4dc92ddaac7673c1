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

/// Holds the statistics of a table's columns that scaling needs. Statistics of two tables are merged by adding rows,
/// sums and squares, and by taking the smaller minima and the larger maxima.
struct ColumnStatistics {
  int64_t rows = 0;
  Array<double> sums, squares, minima, maxima;  // [columns]

  int64_t columns() const { return sums.size(); }
};

/// Sums up rows that are added in order; the result does not depend on the number of calls.
class ColumnAccumulator {
 public:
  /// Starts with no rows. `log` sums up sign(x) log(1 + |x|) instead of x.
  ColumnAccumulator(int64_t columns, bool log);
  /// Adds whole rows, row-major.
  void add(std::span<const float> rows);
  /// Returns the statistics. Without rows, minima are infinity and maxima are -infinity.
  ColumnStatistics finish() &&;

 private:
  template <class Value>
  void add_as(std::span<const float> rows, Value value);

  bool log_;
  int64_t rows_ = 0;
  std::vector<double> sums_, squares_, minima_, maxima_;
};

ColumnStatistics column_statistics(std::span<const float> values, int64_t columns, bool log);

/// Holds the sizes of a group; packed collections store them in this order.
struct GroupSizes {
  int64_t candidates = 0, graphs = 0, nodes = 0, edges = 0, configurable = 0, feature_count = 0;
  int64_t node_type_count = 0;  // node types are below this
  bool operator==(const GroupSizes&) const = default;
};
GroupSizes sizes_of(const Group& group);

/// Describes a group without its arrays: sizes, and a fingerprint that changes with its contents.
struct GroupHeader : GroupSizes {
  std::filesystem::path file;  // an .npz, HLO protobuf (.pb), or a packed collection
  int64_t member = -1;         // index inside a packed collection, -1 for other files
  std::string name;
  CandidateKind kind = CandidateKind::layout;
  Collection collection = Collection::none;  // collection in the file's path, or recorded in the packed collection
  FeaturizerPtr featurizer = {};             // programs read from syntax trees; null: the trees are the graphs
  uint64_t fingerprint = 0;                  // hash of names, shapes and CRC-32 checksums, but not of the path
};

/// Holds the values that a run needs from each group before it starts, without graphs and layouts.
struct GroupSummary {
  Array<double> runtimes;                             // [candidates] Group::runtimes
  Array<double> flops;                                // [candidates], or empty
  Array<uint64_t> configurations;                     // [candidates] configuration_hashes
  ColumnStatistics features, log_features;            // statistics of the node features and their logarithms
  ColumnStatistics tile_features, log_tile_features;  // kind tile
};

/// Computes the summary of a group.
GroupSummary summarize(const Group& group);

}  // namespace foretime::data
