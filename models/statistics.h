#pragma once

#include <torch/types.h>

#include "data/graphs/group.h"
#include "data/graphs/group_header.h"
#include "models/model.h"

namespace foretime::models {

/// InputStatistics of groups that are spread over ranks: each rank adds its own, the three tensors are reduced over
/// ranks in place, every rank finishes. Each graph counts once, however many candidates it has; tile features once a
/// candidate.
class StatisticsAccumulator {
 public:
  /// `log`: features are taken as sign(x) log(1 + |x|) (model.features.log).
  StatisticsAccumulator(const InputSchema& schema, bool log);

  /// Throws ModelError where the group is not of the schema.
  void add(const data::Group& group);
  /// The same of a group that was summed up before, with or without logarithms as `log` says; `tiles` is empty unless
  /// the candidates are tiles. Throws ModelError where the columns are not the schema's.
  void add(const data::ColumnStatistics& features, const data::ColumnStatistics& tiles);

  /// float64 on the CPU, to be reduced by sum, minimum and maximum. A rank without groups holds 0, infinity, -infinity.
  torch::Tensor sums() { return sums_; }
  torch::Tensor minima() { return minima_; }
  torch::Tensor maxima() { return maxima_; }

  /// Throws ModelError where nothing was added.
  InputStatistics finish() const;

 private:
  void add_columns(const data::ColumnStatistics& columns, int64_t first_column, int64_t counter);

  InputSchema schema_;
  bool log_;
  int64_t tile_columns_;
  torch::Tensor sums_;             // [2 (rows of nodes, of candidates) + 2 columns]: counts, sums, sums of squares
  torch::Tensor minima_, maxima_;  // [columns]: node features, then tile features
};

}  // namespace foretime::models
