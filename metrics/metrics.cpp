#include "metrics/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "base/kendall.h"

namespace foretime::metrics {
namespace {

using Values = std::span<const double>;
constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

bool has_nan(Values values) {
  return std::any_of(values.begin(), values.end(), [](double value) { return std::isnan(value); });
}

/// Returns whether a metric is defined for these sequences: not empty and without NaN.
bool comparable(Values predictions, Values measurements) {
  FORETIME_CHECK(predictions.size() == measurements.size(), "{} predictions for {} measurements", predictions.size(),
                 measurements.size());
  return !predictions.empty() && !has_nan(predictions) && !has_nan(measurements);
}

/// Counts of values by rank, with prefix sums in O(log n) (Fenwick 1994).
class RankCounter {
 public:
  explicit RankCounter(size_t ranks) : counts_(ranks + 1, 0) {}

  void add(size_t rank) {
    for (size_t i = rank + 1; i < counts_.size(); i += i & (~i + 1)) ++counts_[i];
  }
  /// Returns the number of added ranks below `rank`.
  int64_t below(size_t rank) const {
    int64_t total = 0;
    for (size_t i = rank; i > 0; i &= i - 1) total += counts_[i];
    return total;
  }

 private:
  std::vector<int64_t> counts_;
};

struct PairCounts {
  int64_t right = 0;  // the faster one scored lower
  int64_t tied = 0;   // both scored alike
  int64_t all = 0;    // pairs with different run times
};

/// Goes through the run times in ascending order, one run of equal ones after the other, and asks for each candidate
/// how many of the strictly faster ones scored below it.
PairCounts count_pairs(Values scores, Values runtimes) {
  const auto n = scores.size();
  std::vector<double> distinct(scores.begin(), scores.end());
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  const auto rank_of = [&](size_t i) {
    return std::lower_bound(distinct.begin(), distinct.end(), scores[i]) - distinct.begin();
  };
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return runtimes[a] < runtimes[b]; });

  RankCounter faster(distinct.size());
  PairCounts counts;
  for (size_t first = 0, last = 0; first < n; first = last) {
    while (last < n && runtimes[order[last]] == runtimes[order[first]]) ++last;
    for (size_t i = first; i < last; ++i) {
      const auto rank = rank_of(order[i]);
      const auto below = faster.below(rank);
      counts.right += below;
      counts.tied += faster.below(rank + 1) - below;
      counts.all += first;
    }
    for (size_t i = first; i < last; ++i) faster.add(rank_of(order[i]));
  }
  return counts;
}

template <class Term>
double mean_over(Values predicted, Values measured, Term term) {
  double sum = 0;
  for (size_t i = 0; i < predicted.size(); ++i) sum += term(predicted[i], measured[i]);
  return sum / predicted.size();
}

bool predicts(const Scores& member) {
  return !member.predicted.empty() && std::all_of(member.predicted.begin(), member.predicted.end(),
                                                  [](double time) { return time > 0 && std::isfinite(time); });
}

}  // namespace

std::vector<double> standardized(const std::vector<double>& scores) {
  const double n = scores.size();
  const double mean = std::accumulate(scores.begin(), scores.end(), 0.0) / n;
  double squares = 0;
  for (const double score : scores) squares += (score - mean) * (score - mean);
  std::vector<double> out;
  for (const double score : scores) out.push_back(squares > 0 ? (score - mean) / std::sqrt(squares / n) : 0.0);
  return out;
}

std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return values[i]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) ranks[order[i]] = (begin + end - 1) / 2.0;
    begin = end;
  }
  return ranks;
}

double kendall_tau(Values scores, Values runtimes) {
  return comparable(scores, runtimes) ? kendall_tau_b(scores, runtimes) : kUndefined;
}

double ordered_pair_accuracy(Values scores, Values runtimes) {
  if (!comparable(scores, runtimes)) return kUndefined;
  const auto counts = count_pairs(scores, runtimes);
  return counts.all == 0 ? kUndefined : static_cast<double>(counts.right) / counts.all;
}

double pairwise_accuracy(Values scores, Values runtimes) {
  if (!comparable(scores, runtimes)) return kUndefined;
  const auto counts = count_pairs(scores, runtimes);
  if (counts.all == 0) return kUndefined;
  return (counts.right + 0.5 * counts.tied) / counts.all;
}

double failure_auc(Values scores, Values runtimes) {
  std::vector<double> failed(runtimes.size());
  std::ranges::transform(runtimes, failed.begin(), [](double time) { return std::isinf(time) ? 1.0 : 0.0; });
  return pairwise_accuracy(scores, failed);
}

double top_k_slowdown(Values scores, Values runtimes, int64_t k) {
  FORETIME_CHECK(k >= 1);
  if (!comparable(scores, runtimes)) return kUndefined;
  const double best = *std::min_element(runtimes.begin(), runtimes.end());
  if (best <= 0) return kUndefined;
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto end = order.begin() + std::min<uint64_t>(order.size(), k);
  // Positions are distinct, so (score, position) is a total order and the k best are one set.
  const auto before = [&](size_t a, size_t b) { return scores[a] != scores[b] ? scores[a] < scores[b] : a < b; };
  if (end != order.end()) std::nth_element(order.begin(), end, order.end(), before);
  double chosen = runtimes[order.front()];
  for (auto i = order.begin(); i != end; ++i) chosen = std::min(chosen, runtimes[*i]);
  return chosen / best - 1;
}

double top_k_score(Values scores, Values runtimes, int64_t k) { return 1 / (1 + top_k_slowdown(scores, runtimes, k)); }

double mean_absolute_error(Values predicted, Values measured) {
  if (!comparable(predicted, measured)) return kUndefined;
  return mean_over(predicted, measured, [](double p, double m) { return std::abs(p - m); });
}

double root_mean_squared_error(Values predicted, Values measured) {
  if (!comparable(predicted, measured)) return kUndefined;
  return std::sqrt(mean_over(predicted, measured, [](double p, double m) { return (p - m) * (p - m); }));
}

double mean_absolute_percentage_error(Values predicted, Values measured) {
  if (!comparable(predicted, measured)) return kUndefined;
  if (std::find(measured.begin(), measured.end(), 0.0) != measured.end()) return kUndefined;
  return mean_over(predicted, measured, [](double p, double m) { return std::abs((p - m) / m); });
}

double r_squared(Values predicted, Values measured) {
  if (!comparable(predicted, measured)) return kUndefined;
  // Equal values are compared and not summed: their rounded mean may differ from them all.
  if (std::equal(measured.begin() + 1, measured.end(), measured.begin())) return kUndefined;
  const double mean = mean_over(measured, measured, [](double m, double) { return m; });
  const double residual = mean_over(predicted, measured, [](double p, double m) { return (p - m) * (p - m); });
  return 1 - residual / mean_over(measured, measured, [&](double m, double) { return (m - mean) * (m - mean); });
}

Scores joined_scores(const std::vector<Scores>& members) {
  if (members.size() == 1) return members.front();
  const bool times = std::all_of(members.begin(), members.end(), predicts);
  const double count = members.size();
  Scores joined;
  joined.scores.resize(members.front().scores.size());
  for (const Scores& member : members) {
    const auto ranked = times ? std::vector<double>() : standardized(member.scores);
    for (size_t i = 0; i < joined.scores.size(); ++i)
      joined.scores[i] += (times ? std::log(member.predicted[i]) : ranked[i]) / count;
  }
  const bool tell = std::ranges::none_of(members, [](const Scores& member) { return member.failures.empty(); });
  if (tell) joined.failures.resize(joined.scores.size());
  for (const Scores& member : members)
    for (size_t i = 0; i < joined.failures.size(); ++i) joined.failures[i] += member.failures[i] / count;
  if (!times) return joined;
  for (double& score : joined.scores) score = std::exp(score);
  joined.predicted = joined.scores;
  return joined;
}

}  // namespace foretime::metrics
