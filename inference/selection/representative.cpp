#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "inference/selection/choose.h"

namespace foretime::inference {
namespace {

constexpr int64_t kSmallestPart = 8;  // each side of a cut has at least 1 / kSmallestPart of the rows
constexpr int kTurns = 8;             // iterations of the power method

/// Divides candidates until there are as many parts as choices: principal direction divisive partitioning (Boley 1998),
/// cut where the parts' sums of squared distances to their means are least.
class Divider {
 public:
  Divider(const Matrix& points, std::vector<int64_t>& chosen) : points_(points), chosen_(chosen) {}

  void divide(std::vector<int64_t> candidates, std::vector<int64_t> measured, int64_t count) {
    const auto size = std::ssize(candidates);
    if (count == 0) return;
    if (count == size) {
      chosen_.insert(chosen_.end(), candidates.begin(), candidates.end());
      return;
    }
    const auto mean = mean_over(candidates);
    if (count == 1) return chosen_.push_back(nearest(candidates, mean));
    const auto direction = principal_direction(candidates, mean);
    std::vector<std::pair<double, int64_t>> order;
    order.reserve(candidates.size());
    for (const int64_t row : candidates) order.emplace_back(along(row, mean, direction), row);
    std::ranges::sort(order);
    const int64_t cut = best_cut(order, mean);
    const size_t at = cut;
    const double border = (order[at - 1].first + order[at].first) / 2.0;
    std::vector<int64_t> left, right, left_measured, right_measured;
    for (int64_t i = 0; i < size; ++i) (i < cut ? left : right).push_back(order[i].second);
    std::ranges::sort(left);
    std::ranges::sort(right);
    for (const int64_t row : measured)
      (along(row, mean, direction) < border ? left_measured : right_measured).push_back(row);
    const double total = count + std::ssize(measured);
    const double share = total * cut / size;
    const int64_t of_left = std::clamp(std::llround(share) - std::ssize(left_measured),
                                       static_cast<long long>(std::max<int64_t>(0, count - (size - cut))),
                                       static_cast<long long>(std::min(count, cut)));
    candidates = {};
    order = {};
    divide(std::move(left), std::move(left_measured), of_left);
    divide(std::move(right), std::move(right_measured), count - of_left);
  }

 private:
  using Vector = std::vector<double>;

  Vector mean_over(const std::vector<int64_t>& rows) const {
    Vector mean(points_.columns, 0.0);
    for (const int64_t row : rows) {
      for (size_t c = 0; c < mean.size(); ++c) mean[c] += points_.row(row)[c];
    }
    for (double& value : mean) value /= rows.size();
    return mean;
  }
  double distance(int64_t row, const Vector& place) const {
    double sum = 0.0;
    for (size_t c = 0; c < place.size(); ++c) {
      const double difference = points_.row(row)[c] - place[c];
      sum += difference * difference;
    }
    return sum;
  }
  double along(int64_t row, const Vector& mean, const Vector& direction) const {
    double sum = 0.0;
    for (size_t c = 0; c < mean.size(); ++c) sum += (points_.row(row)[c] - mean[c]) * direction[c];
    return sum;
  }
  int64_t nearest(const std::vector<int64_t>& rows, const Vector& place) const {
    int64_t best = -1;
    double least = std::numeric_limits<double>::infinity();
    for (const int64_t row : rows) {
      const double found = distance(row, place);
      if (found < least) best = row;
      least = std::min(least, found);
    }
    return best;
  }

  /// About the direction in which the rows spread most, by power iteration from the row that is farthest from the mean;
  /// of length 1, or zeros where all rows are equal.
  Vector principal_direction(const std::vector<int64_t>& rows, const Vector& mean) const {
    Vector direction(mean.size(), 0.0);
    double most = 0.0;
    for (const int64_t row : rows) {
      const double found = distance(row, mean);
      if (found <= most) continue;
      most = found;
      for (size_t c = 0; c < mean.size(); ++c) direction[c] = points_.row(row)[c] - mean[c];
    }
    for (int turn = 0; turn < kTurns && most > 0.0; ++turn) {
      normalise(direction);
      Vector next(mean.size(), 0.0);
      for (const int64_t row : rows) {
        const double factor = along(row, mean, direction);
        for (size_t c = 0; c < mean.size(); ++c) next[c] += factor * (points_.row(row)[c] - mean[c]);
      }
      direction = std::move(next);
    }
    normalise(direction);
    return direction;
  }
  static void normalise(Vector& vector) {
    double sum = 0.0;
    for (const double value : vector) sum += value * value;
    for (double& value : vector) value *= sum > 0.0 ? 1.0 / std::sqrt(sum) : 0.0;
  }

  /// Returns the number of rows left of the cut. The sum of squared distances to both means is smallest if |S|² (1 /
  /// left + 1 / right) is largest, where S is the sum of the left rows' distances to the common mean.
  int64_t best_cut(const std::vector<std::pair<double, int64_t>>& order, const Vector& mean) const {
    const auto size = std::ssize(order);
    const int64_t least = std::max<int64_t>(1, size / kSmallestPart);
    Vector sum(mean.size(), 0.0);
    int64_t best = size / 2;
    double most = 0.0;
    for (int64_t left = 1; left <= size - least; ++left) {
      const float* point = points_.row(order[left - 1].second);
      double length = 0.0;
      for (size_t c = 0; c < mean.size(); ++c) {
        sum[c] += point[c] - mean[c];
        length += sum[c] * sum[c];
      }
      if (left < least) continue;
      const double gain = length * (1.0 / left + 1.0 / (size - left));
      if (gain > most) best = left;
      most = std::max(most, gain);
    }
    return best;
  }

  const Matrix& points_;
  std::vector<int64_t>& chosen_;
};

}  // namespace

std::vector<int64_t> choose_representative(const Matrix& points, int64_t candidates, std::vector<int64_t> among,
                                           int64_t count) {
  std::vector<int64_t> chosen, measured;
  for (int64_t row = candidates; row < points.rows; ++row) measured.push_back(row);
  Divider(points, chosen).divide(std::move(among), std::move(measured), count);
  return chosen;
}

}  // namespace foretime::inference
