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
  int64_t rows = 0;                             // number of rows
  Array<double> sums, squares, minima, maxima;  // [columns]; squares: sums of squares

  int64_t columns() const { return sums.size(); }
};

/// Computes ColumnStatistics of rows that are added in pieces; the division into pieces does not change the result.
class ColumnAccumulator {
 public:
  /// Starts without rows. If `log` is set, the statistics are those of sign(x) log(1 + |x|) instead of x.
  ColumnAccumulator(int64_t columns, bool log);
  /// Adds whole rows, row-major: [rows, columns].
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

/// Returns the statistics of a table [rows, columns] of `values`; `log` as in ColumnAccumulator.
ColumnStatistics column_statistics(std::span<const float> values, int64_t columns, bool log);

/// Holds the sizes of a group; packed collections store them in this order.
struct GroupSizes {
  // numbers in all graphs together; configurable: configurable nodes; feature_count: features of a node
  int64_t candidates = 0, graphs = 0, nodes = 0, edges = 0, configurable = 0, feature_count = 0;
  int64_t node_type_count = 0;  // node types are below this number
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
  FeaturizerPtr featurizer = {};             // makes graphs from syntax trees in .npz; null: the trees are the graphs
  uint64_t fingerprint = 0;                  // hash of the contents, but not of the path
};

/// Holds the values that a run needs from each group before it starts, without graphs and layouts.
struct GroupSummary {
  Array<double> runtimes;                             // [candidates] Group::runtimes
  Array<double> flops;                                // [candidates] Group::flops; empty if unknown
  Array<uint64_t> configurations;                     // [candidates] configuration_hashes
  ColumnStatistics features, log_features;            // statistics of the node features and their logarithms
  ColumnStatistics tile_features, log_tile_features;  // both empty for other kinds than tiles
};

/// Computes the summary of a group: run times, arithmetic operations, configuration hashes, statistics of its features.
GroupSummary summarize(const Group& group);

}  // namespace foretime::data
