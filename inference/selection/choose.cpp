#include "inference/selection/choose.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/counter_random.h"

namespace foretime::inference {
namespace {

constexpr float kNowhere = std::numeric_limits<float>::infinity();

/// Sums of eight lanes, which compilers keep in one register.
float squared_distance(const float* a, const float* b, int64_t columns) {
  constexpr int64_t kLanes = 8;
  float sums[kLanes] = {};
  int64_t c = 0;
  for (; c + kLanes <= columns; c += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const float difference = a[c + lane] - b[c + lane];
      sums[lane] += difference * difference;
    }
  }
  float sum = 0.0F;
  for (; c < columns; ++c) sum += (a[c] - b[c]) * (a[c] - b[c]);
  for (const float lane : sums) sum += lane;
  return sum;
}

std::vector<float> mean_of(const Matrix& points, int64_t rows) {
  std::vector<double> sums(points.columns, 0.0);
  for (int64_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < sums.size(); ++c) sums[c] += points.row(r)[c];
  }
  std::vector<float> mean(sums.size());
  for (size_t c = 0; c < sums.size(); ++c) mean[c] = sums[c] / rows;
  return mean;
}

/// The distance of each candidate to the nearest of the points that were added.
class NearestPoints {
 public:
  NearestPoints(const Matrix& points, int64_t candidates)
      : points_(points), distance_(candidates, kNowhere), nearest_(candidates, -1) {}

  /// A point of this row. A candidate whose nearest point is at distance d, and 2 d or more away from the new one, is
  /// not looked at: the new one is no nearer (Elkan 2003). Distances are squared.
  void add(int64_t row) {
    constexpr float kSlack = 1.0001F;  // tolerance for rounding errors
    const float* place = points_.row(row);
    to_new_.clear();
    for (const int64_t other : added_) to_new_.push_back(squared_distance(place, points_.row(other), points_.columns));
    const int32_t number = added_.size();
    added_.push_back(row);
    for (size_t i = 0; i < distance_.size(); ++i) {
      if (distance_[i] < 0.0F) continue;
      if (nearest_[i] >= 0 && to_new_[nearest_[i]] >= 4.0F * kSlack * distance_[i]) continue;
      const float distance = squared_distance(place, points_.row(static_cast<int64_t>(i)), points_.columns);
      if (distance >= distance_[i]) continue;
      distance_[i] = distance;
      nearest_[i] = number;
    }
  }
  /// A candidate is not given any more.
  void take(int64_t candidate) { distance_[candidate] = -1.0F; }
  /// Takes the candidate that is farthest from all.
  int64_t take_farthest() {
    const int64_t farthest = std::ranges::max_element(distance_) - distance_.begin();
    take(farthest);
    return farthest;
  }

 private:
  const Matrix& points_;
  std::vector<float> distance_;   // [candidates], -1: taken
  std::vector<int32_t> nearest_;  // [candidates] which of the added points
  std::vector<int64_t> added_;
  std::vector<float> to_new_;
};

std::vector<int64_t> first_numbers_of(int64_t count) {
  std::vector<int64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

std::vector<int64_t> choose_at_random(int64_t candidates, int64_t count, uint64_t key) {
  const KeyedPermutation order(static_cast<uint64_t>(candidates), key);
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < count; ++i) chosen.push_back(order(i));
  return chosen;
}

}  // namespace

std::vector<int64_t> choose_diverse(const Matrix& points, int64_t candidates, int64_t count) {
  std::vector<int64_t> chosen;
  if (count == 0) return chosen;
  NearestPoints nearest(points, candidates);
  for (int64_t row = candidates; row < points.rows; ++row) nearest.add(row);
  if (points.rows == candidates) {  // nothing is measured: begin in the middle
    const auto mean = mean_of(points, candidates);
    int64_t first = 0;
    float least = kNowhere;
    for (int64_t i = 0; i < candidates; ++i) {
      const float distance = squared_distance(mean.data(), points.row(i), points.columns);
      if (distance < least) first = i;
      least = std::min(least, distance);
    }
    chosen.push_back(first);
    nearest.add(first);
    nearest.take(first);
  }
  while (std::ssize(chosen) < count) {
    chosen.push_back(nearest.take_farthest());
    if (std::ssize(chosen) < count) nearest.add(chosen.back());
  }
  return chosen;
}

std::vector<int64_t> choose_uncertain(std::span<const double> uncertainty, int64_t count) {
  auto order = first_numbers_of(uncertainty.size());
  std::ranges::partial_sort(order, order.begin() + count, [&](int64_t a, int64_t b) {
    const double of_a = uncertainty[a], of_b = uncertainty[b];
    return of_a != of_b ? of_a > of_b : a < b;
  });
  order.resize(count);
  return order;
}

std::vector<int64_t> choose(SelectionMethod method, const SelectionPool& pool, int64_t count) {
  const auto& [points, candidates, uncertainty, key] = pool;
  switch (method) {
    case SelectionMethod::representative:
      return choose_representative(points, candidates, first_numbers_of(candidates), count);
    case SelectionMethod::diverse:
      return choose_diverse(points, candidates, count);
    case SelectionMethod::uncertain:
      return choose_uncertain(uncertainty, count);
    case SelectionMethod::mixed: {
      auto half = choose_uncertain(uncertainty, std::max(count, (candidates + 1) / 2));
      std::ranges::sort(half);
      return choose_representative(points, candidates, std::move(half), count);
    }
    default:
      return choose_at_random(candidates, count, key);
  }
}

std::vector<int64_t> equal_shares(std::span<const int64_t> sizes, int64_t number) {
  const auto given = [&](int64_t level) {
    int64_t sum = 0;
    for (const int64_t size : sizes) sum += std::min(size, level);
    return sum;
  };
  int64_t level = 0, above = number + 1;  // given(level) <= number
  while (level + 1 < above) {
    const int64_t middle = level + (above - level) / 2;
    (given(middle) <= number ? level : above) = middle;
  }
  std::vector<int64_t> shares;
  int64_t left = number - given(level);
  for (const int64_t size : sizes) {
    const int64_t more = size > level && left > 0 ? 1 : 0;
    shares.push_back(std::min(size, level) + more);
    left -= more;
  }
  return shares;
}

std::vector<double> disagreement(const std::vector<std::vector<float>>& scores) {
  const size_t candidates = scores.front().size();
  const double members = scores.size();
  std::vector<double> sums(candidates, 0.0), squares(candidates, 0.0);
  for (const auto& of_member : scores) {
    const double mean = std::accumulate(of_member.begin(), of_member.end(), 0.0) / candidates;
    double variance = 0.0;
    for (const float score : of_member) variance += (score - mean) * (score - mean) / candidates;
    const double factor = variance > 0.0 ? 1.0 / std::sqrt(variance) : 0.0;
    for (size_t i = 0; i < candidates; ++i) {
      const double standardised = (of_member[i] - mean) * factor;
      sums[i] += standardised;
      squares[i] += standardised * standardised;
    }
  }
  for (size_t i = 0; i < candidates; ++i)
    squares[i] = std::sqrt(std::max(0.0, squares[i] / members - sums[i] * sums[i] / members / members));
  return squares;
}

Matrix points_of(const std::vector<Matrix>& blocks) {
  Matrix joined{blocks.front().rows, 0, {}};
  for (const auto& block : blocks) joined.columns += block.columns;
  joined.values.resize(joined.size());
  int64_t first = 0;
  for (const auto& block : blocks) {
    const auto mean = mean_of(block, block.rows);
    double spread = 0.0;
    for (int64_t r = 0; r < block.rows; ++r) spread += squared_distance(mean.data(), block.row(r), block.columns);
    spread /= block.rows;
    const float scale = spread > 0.0 ? 1.0 / std::sqrt(spread) : 0.0;
    for (int64_t r = 0; r < block.rows; ++r) {
      for (int64_t c = 0; c < block.columns; ++c) joined.row(r)[first + c] = (block.row(r)[c] - mean[c]) * scale;
    }
    first += block.columns;
  }
  if (joined.columns <= kPointColumns) return joined;
  constexpr uint64_t kStream = 61;  // beside those of base/counter_random.h
  std::vector<float> signs(kPointColumns * joined.columns);
  const float unit = 1.0F / std::sqrt(kPointColumns);
  for (size_t i = 0; i < signs.size(); ++i) signs[i] = random_bits({kStream, i}) % 2 == 0 ? unit : -unit;
  Matrix projected{joined.rows, kPointColumns, {}};
  projected.values.resize(projected.size());
  dense_product(joined, signs.data(), joined.columns, nullptr, 1.0F, projected);
  return projected;
}

}  // namespace foretime::inference
