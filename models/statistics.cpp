#include "models/statistics.h"

#include <cmath>
#include <limits>

#include "base/check.h"

namespace foretime::models {
namespace {

constexpr int64_t kCounts = 2;  // leading entries of the sums

}  // namespace

StatisticsAccumulator::StatisticsAccumulator(const InputSchema& schema, bool log)
    : schema_(schema), log_(log), tile_columns_(schema.kind == data::CandidateKind::tile ? data::kTileFeatures : 0) {
  const int64_t columns = schema.feature_count + tile_columns_;
  sums_ = torch::zeros({kCounts + 2 * columns}, torch::kDouble);
  minima_ = torch::full({columns}, std::numeric_limits<double>::infinity(), torch::kDouble);
  maxima_ = torch::full({columns}, -std::numeric_limits<double>::infinity(), torch::kDouble);
}

void StatisticsAccumulator::add(const data::Group& group) {
  FORETIME_CHECK(group.kind == schema_.kind, "{}", group.name);
  FORETIME_CHECK(group.graphs.feature_count == schema_.feature_count, "{}", group.name);
  data::ColumnStatistics tiles;
  if (tile_columns_ > 0) tiles = data::column_statistics(group.tile_features.span(), data::kTileFeatures, log_);
  add(data::column_statistics(group.graphs.node_features.span(), schema_.feature_count, log_), tiles);
}

void StatisticsAccumulator::add(const data::ColumnStatistics& features, const data::ColumnStatistics& tiles) {
  FORETIME_CHECK(features.columns() == schema_.feature_count && tiles.columns() == tile_columns_,
                 "{} columns of nodes and {} of candidates", features.columns(), tiles.columns());
  add_columns(features, 0, 0);
  if (tile_columns_ > 0) add_columns(tiles, schema_.feature_count, 1);
}

void StatisticsAccumulator::add_columns(const data::ColumnStatistics& columns, int64_t first_column, int64_t counter) {
  const int64_t width = columns.columns(), all_columns = schema_.feature_count + tile_columns_;
  if (width == 0 || columns.rows == 0) return;
  sums_[counter].add_(static_cast<double>(columns.rows));
  const auto tensor = [&](const Array<double>& values) {
    return torch::from_blob(const_cast<double*>(values.data()), {width}, torch::kDouble);
  };
  sums_.narrow(0, kCounts + first_column, width).add_(tensor(columns.sums));
  sums_.narrow(0, kCounts + all_columns + first_column, width).add_(tensor(columns.squares));
  auto minimum = minima_.narrow(0, first_column, width), maximum = maxima_.narrow(0, first_column, width);
  minimum.copy_(torch::minimum(minimum, tensor(columns.minima)));
  maximum.copy_(torch::maximum(maximum, tensor(columns.maxima)));
}

InputStatistics StatisticsAccumulator::finish() const {
  const int64_t features = schema_.feature_count, all_columns = features + tile_columns_;
  const auto of = [&](int64_t first, int64_t columns, int64_t count_at, torch::Tensor& minimum, torch::Tensor& maximum,
                      torch::Tensor& mean, torch::Tensor& deviation) {
    const double count = sums_[count_at].item<double>();
    if (columns > 0 && !(count > 0)) throw ModelError("feature statistics: no rows, expected at least one");
    minimum = minima_.narrow(0, first, columns).clone();
    maximum = maxima_.narrow(0, first, columns).clone();
    mean = sums_.narrow(0, kCounts + first, columns) / count;
    const auto variance = sums_.narrow(0, kCounts + all_columns + first, columns) / count - mean.square();
    // A column with this range deviates at least by range / sqrt(2 count), even if cancellation gives less.
    deviation = torch::maximum(variance.clamp_min(0.0).sqrt(), (maximum - minimum) / std::sqrt(2.0 * count));
  };
  InputStatistics result;
  of(0, features, 0, result.minimum, result.maximum, result.mean, result.deviation);
  if (tile_columns_ > 0)
    of(features, tile_columns_, 1, result.candidate_minimum, result.candidate_maximum, result.candidate_mean,
       result.candidate_deviation);
  return result;
}

}  // namespace foretime::models
