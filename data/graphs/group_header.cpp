#include "data/graphs/group_header.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace foretime::data {

ColumnAccumulator::ColumnAccumulator(int64_t columns, bool log)
    : log_(log),
      sums_(columns),
      squares_(sums_.size()),
      minima_(sums_.size(), std::numeric_limits<double>::infinity()),
      maxima_(sums_.size(), -std::numeric_limits<double>::infinity()) {}

void ColumnAccumulator::add(std::span<const float> rows) {
  if (log_) {
    // Most features are 0, and their logarithm is known.
    add_as(rows, [](double x) { return x == 0.0 ? x : std::copysign(std::log1p(std::abs(x)), x); });
  } else {
    add_as(rows, [](double x) { return x; });
  }
}

template <class Value>
void ColumnAccumulator::add_as(std::span<const float> rows, Value value) {
  const size_t columns = sums_.size();
  if (columns == 0) return;
  // Locals tell the compiler that the four arrays do not overlap what they are read from.
  double* const __restrict sums = sums_.data();
  double* const __restrict squares = squares_.data();
  double* const __restrict minima = minima_.data();
  double* const __restrict maxima = maxima_.data();
  for (; rows.size() >= columns; rows = rows.subspan(columns)) {
    const float* const row = rows.data();
    for (size_t c = 0; c < columns; ++c) {
      const double x = value(row[c]);
      sums[c] += x;
      squares[c] += x * x;
      minima[c] = std::min(minima[c], x);
      maxima[c] = std::max(maxima[c], x);
    }
    ++rows_;
  }
}

ColumnStatistics ColumnAccumulator::finish() && {
  return {rows_, std::move(sums_), std::move(squares_), std::move(minima_), std::move(maxima_)};
}

ColumnStatistics column_statistics(std::span<const float> values, int64_t columns, bool log) {
  ColumnAccumulator accumulator(columns, log);
  accumulator.add(values);
  return std::move(accumulator).finish();
}

GroupSizes sizes_of(const Group& group) {
  const auto& graphs = group.graphs;
  return {group.candidates,     graphs.graphs(),       graphs.nodes(), graphs.edges(), group.layout.configurable(),
          graphs.feature_count, graphs.node_type_count};
}

GroupSummary summarize(const Group& group) {
  GroupSummary summary;
  summary.runtimes = group.runtimes;
  summary.flops = group.flops;
  summary.configurations = configuration_hashes(group);
  const auto features = group.graphs.node_features.span();
  summary.features = column_statistics(features, group.graphs.feature_count, false);
  summary.log_features = column_statistics(features, group.graphs.feature_count, true);
  if (group.kind == CandidateKind::tile) {
    summary.tile_features = column_statistics(group.tile_features.span(), kTileFeatures, false);
    summary.log_tile_features = column_statistics(group.tile_features.span(), kTileFeatures, true);
  }
  return summary;
}

}  // namespace foretime::data
