#pragma once

#include <torch/types.h>

#include "data/graphs/group.h"
#include "data/graphs/group_header.h"
#include "models/model.h"

namespace foretime::models {

/// Computes InputStatistics of groups that are distributed over ranks: each rank adds its groups, the three tensors are
/// reduced over ranks in place, and every rank calls finish(). Nodes count once, however many candidates a graph has.
class StatisticsAccumulator {
 public:
  /// Statistics with `log` are of sign(x) log(1 + |x|) for each feature x (model.features.log).
  StatisticsAccumulator(const InputSchema& schema, bool log);

  /// Adds a group, which must match the schema (BrokenInvariant).
  void add(const data::Group& group);
  /// Adds the precomputed statistics of a group's node features and tile features (no columns unless tiles), of
  /// logarithms if `log` is set. The columns must match the schema (BrokenInvariant).
  void add(const data::ColumnStatistics& features, const data::ColumnStatistics& tiles);

  /// These three return tensors to be reduced over ranks in place, float64 on the CPU: by sum, by minimum, by maximum.
  /// Without groups their elements are 0, infinity, -infinity.
  torch::Tensor sums() { return sums_; }
  torch::Tensor minima() { return minima_; }
  torch::Tensor maxima() { return maxima_; }

  /// Returns the statistics, without type_vectors. Throws ModelError if no node or, for tiles, no candidate was added.
  InputStatistics finish() const;

 private:
  /// Adds `columns` from column `first_column` on, and their rows to sums_[counter] (0: nodes, 1: candidates).
  void add_columns(const data::ColumnStatistics& columns, int64_t first_column, int64_t counter);

  InputSchema schema_;
  bool log_;              // statistics of logarithms
  int64_t tile_columns_;  // 24 for tiles, else 0
  torch::Tensor sums_;    // [2 + 2 columns]: numbers of node and candidate rows, then sums, then sums of squares
  torch::Tensor minima_, maxima_;  // [columns]: node features, then tile features
};

}  // namespace foretime::models
