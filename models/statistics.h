#pragma once

#include <torch/types.h>

#include "data/graphs/group.h"
#include "data/graphs/group_header.h"
#include "models/model.h"

namespace foretime::models {

/// Computes InputStatistics of groups that are distributed over ranks: each rank adds its groups, the three tensors are
/// reduced over ranks in place, and every rank calls finish. Each graph counts once, whatever its number of candidates;
/// tile features count once a candidate.
class StatisticsAccumulator {
 public:
  /// `log` transforms features by sign(x) log(1 + |x|) (model.features.log).
  StatisticsAccumulator(const InputSchema& schema, bool log);

  /// Adds a group. Throws ModelError if it does not match the schema.
  void add(const data::Group& group);
  /// Adds the precomputed statistics of a group, of logarithms if `log` is set; `tiles` is empty unless the candidates
  /// are tiles. Throws ModelError if the columns do not match the schema.
  void add(const data::ColumnStatistics& features, const data::ColumnStatistics& tiles);

  /// Sums, minima and maxima for reductions over ranks, float64 on the CPU. A rank without groups holds 0, infinity,
  /// -infinity.
  torch::Tensor sums() { return sums_; }
  torch::Tensor minima() { return minima_; }
  torch::Tensor maxima() { return maxima_; }

  /// Returns the statistics. Throws ModelError if no group was added.
  InputStatistics finish() const;

 private:
  /// Adds the statistics of columns that begin at `first_column` here. Their number of rows is added to sums_[counter]
  /// (0: nodes, 1: candidates).
  void add_columns(const data::ColumnStatistics& columns, int64_t first_column, int64_t counter);

  InputSchema schema_;
  bool log_;
  int64_t tile_columns_;
  torch::Tensor sums_;  // [2 + 2 columns]: numbers of node and candidate rows, then sums, then sums of squares
  torch::Tensor minima_, maxima_;  // [columns]: node features, then tile features
};

}  // namespace foretime::models
