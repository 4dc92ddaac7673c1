#include "metrics/tie_thresholds.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace foretime::metrics {
namespace {

double pairs(double n) { return n * (n - 1) / 2; }

/// Runs of neighbouring scores, and what joining them does to τ-b = (concordant - discordant) / √((n0 - n1)(n0 - n2)),
/// n1 and n2 the pairs that are tied in scores and in run times. The factor n0 - n2 is that of all joins, and left out.
class Runs {
 public:
  /// `ends`: where each run ends in the order of the scores. `runtimes` are in that order.
  Runs(std::vector<size_t> ends, const std::vector<double>& runtimes) : ends_(std::move(ends)) {
    const size_t runs = ends_.size();
    std::vector<std::vector<double>> sorted(runs);
    for (size_t i = 0, r = 0; i < runtimes.size(); ++i) {
      while (i >= ends_[r]) ++r;
      sorted[r].push_back(runtimes[i]);
    }
    for (auto& run : sorted) std::sort(run.begin(), run.end());
    order_.assign(runs, std::vector<double>(runs));
    for (size_t i = 0; i < runs; ++i) {
      sizes_.push_back(sorted[i].size());
      for (size_t j = i + 1; j < runs; ++j) order_[i][j] = concordance(sorted[i], sorted[j]);
    }
    untied_scores_ = pairs(runtimes.size());
    for (const double size : sizes_) untied_scores_ -= pairs(size);
    for (const auto& row : order_) concordance_ += std::accumulate(row.begin(), row.end(), 0.0);
  }

  double tau() const { return tau(concordance_, untied_scores_); }  // times √(n0 - n2), as below
  size_t count() const { return ends_.size(); }
  const std::vector<size_t>& ends() const { return ends_; }

  /// τ-b with runs i and i + 1 as one.
  double joined(size_t i) const {
    return tau(concordance_ - order_[i][i + 1], untied_scores_ - sizes_[i] * sizes_[i + 1]);
  }

  void join(size_t i) {
    concordance_ -= order_[i][i + 1];
    untied_scores_ -= sizes_[i] * sizes_[i + 1];
    sizes_[i] += sizes_[i + 1];
    for (size_t before = 0; before < i; ++before) order_[before][i] += order_[before][i + 1];
    for (size_t after = i + 2; after < count(); ++after) order_[i][after] += order_[i + 1][after];
    const std::ptrdiff_t at = i;
    order_.erase(order_.begin() + at + 1);
    for (auto& row : order_) row.erase(row.begin() + at + 1);
    sizes_.erase(sizes_.begin() + at + 1);
    ends_.erase(ends_.begin() + at);
  }

 private:
  static double tau(double concordance, double untied) { return concordance / std::sqrt(untied); }

  /// Pairs of which the one of `low` is faster, less those of which it is slower.
  static double concordance(const std::vector<double>& low, const std::vector<double>& high) {
    double sum = 0;
    for (const double t : low) {
      const auto [first, last] = std::equal_range(high.begin(), high.end(), t);
      sum += static_cast<double>(high.end() - last) - (first - high.begin());
    }
    return sum;
  }

  std::vector<size_t> ends_;
  std::vector<double> sizes_;
  std::vector<std::vector<double>> order_;  // [runs][later runs]
  double concordance_ = 0, untied_scores_ = 0;
};

}  // namespace

std::vector<double> level_thresholds(std::span<const double> scores, std::span<const double> runtimes, int64_t bins) {
  const size_t n = scores.size();
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] < scores[b]; });
  std::vector<double> sorted, times;
  for (const size_t i : order) {
    sorted.push_back(scores[i]);
    times.push_back(runtimes[i]);
  }
  std::vector<size_t> ends;
  const size_t at_most = bins;
  for (size_t bin = 1; bin <= at_most && n > 0; ++bin) {
    size_t end = n * bin / at_most;
    while (end > 0 && end < n && sorted[end] == sorted[end - 1]) ++end;
    if (end > (ends.empty() ? 0 : ends.back())) ends.push_back(end);
  }
  if (ends.size() < 2 || std::all_of(times.begin(), times.end(), [&](double t) { return t == times.front(); }))
    return {};
  Runs runs(std::move(ends), times);
  while (runs.count() > 2) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < runs.count(); ++i) best = runs.joined(i) > runs.joined(best) ? i : best;
    if (!(runs.joined(best) > runs.tau())) break;
    runs.join(best);
  }
  std::vector<double> thresholds;
  for (size_t r = 0; r + 1 < runs.count(); ++r) {
    const size_t end = runs.ends()[r];
    const double middle = sorted[end - 1] + (sorted[end] - sorted[end - 1]) / 2;
    thresholds.push_back(middle > sorted[end - 1] ? middle : sorted[end]);
  }
  return thresholds;
}

int64_t level_of(std::span<const double> thresholds, double score) {
  return std::upper_bound(thresholds.begin(), thresholds.end(), score) - thresholds.begin();
}

}  // namespace foretime::metrics
