#include "models/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace foretime::models {
namespace {

constexpr int64_t kCounts = 2;          // leading entries of the sums
constexpr int64_t kRowsAtOnce = 65536;  // converted to double together

}  // namespace

StatisticsAccumulator::StatisticsAccumulator(const InputSchema& schema, bool log)
    : schema_(schema), log_(log), tile_columns_(schema.kind == data::CandidateKind::tile ? data::kTileFeatures : 0) {
  const int64_t columns = schema.feature_count + tile_columns_;
  sums_ = torch::zeros({kCounts + 2 * columns}, torch::kDouble);
  minima_ = torch::full({columns}, std::numeric_limits<double>::infinity(), torch::kDouble);
  maxima_ = torch::full({columns}, -std::numeric_limits<double>::infinity(), torch::kDouble);
}

void StatisticsAccumulator::add(const data::Group& group) {
  if (group.kind != schema_.kind) {
    throw ModelError(fmt::format("{}: candidates of kind {}, expected {}", group.name, static_cast<int>(group.kind),
                                 static_cast<int>(schema_.kind)));
  }
  if (group.graphs.feature_count != schema_.feature_count) {
    throw ModelError(fmt::format("{}: {} columns of node features, expected {}", group.name, group.graphs.feature_count,
                                 schema_.feature_count));
  }
  add_rows(group.graphs.node_features, 0, schema_.feature_count, 0);
  if (tile_columns_ > 0) add_rows(group.tile_features, schema_.feature_count, tile_columns_, 1);
}

void StatisticsAccumulator::add_rows(const data::Array<float>& values, int64_t first_column, int64_t columns,
                                     int64_t counter) {
  if (columns == 0 || values.empty()) return;
  const int64_t rows = values.size() / columns, all_columns = schema_.feature_count + tile_columns_;
  sums_[counter].add_(static_cast<double>(rows));
  auto sum = sums_.narrow(0, kCounts + first_column, columns);
  auto squares = sums_.narrow(0, kCounts + all_columns + first_column, columns);
  auto minimum = minima_.narrow(0, first_column, columns), maximum = maxima_.narrow(0, first_column, columns);
  const auto all = torch::from_blob(const_cast<float*>(values.data()), {rows, columns}, torch::kFloat);
  for (int64_t first = 0; first < rows; first += kRowsAtOnce) {
    auto x = all.slice(0, first, std::min(rows, first + kRowsAtOnce)).to(torch::kDouble);
    if (log_) x = torch::sign(x) * torch::log1p(torch::abs(x));
    sum.add_(x.sum(0));
    squares.add_(x.square().sum(0));
    minimum.copy_(torch::minimum(minimum, x.amin(0)));
    maximum.copy_(torch::maximum(maximum, x.amax(0)));
  }
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
    // A column with this range deviates at least by range / sqrt(2 count): what cancellation takes below that comes
    // back.
    deviation = torch::maximum(variance.clamp_min(0.0).sqrt(), (maximum - minimum) / std::sqrt(2.0 * count));
  };
  InputStatistics result;
  of(0, features, 0, result.minimum, result.maximum, result.mean, result.deviation);
  if (tile_columns_ > 0) {
    of(features, tile_columns_, 1, result.candidate_minimum, result.candidate_maximum, result.candidate_mean,
       result.candidate_deviation);
  }
  return result;
}

}  // namespace foretime::models
