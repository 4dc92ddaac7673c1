#include "base/kendall.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/error.h"

namespace foretime {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

void require_equal_lengths(size_t a, size_t b) {
  if (a != b) throw DataError("kendall tau: {} values against {}, expected equal lengths", a, b);
}

bool has_nan(std::span<const double> values) {
  return std::ranges::any_of(values, [](double x) { return std::isnan(x); });
}

/// Pairs inside the runs of equal neighbours: the sum of n (n - 1) / 2 over them.
template <class Equal>
int64_t tied_pairs(size_t count, Equal equal) {
  int64_t pairs = 0, run = 0;
  for (size_t i = 1; i < count; ++i) {
    run = equal(i - 1, i) ? run + 1 : 0;
    pairs += run;
  }
  return pairs;
}

/// Sorts values[first, last) and returns how many pairs stood in the wrong order.
int64_t sort_counting_inversions(std::vector<double>& values, std::vector<double>& spare) {
  int64_t inversions = 0;
  const size_t n = values.size();
  for (size_t width = 1; width < n; width *= 2) {
    for (size_t first = 0; first < n; first += 2 * width) {
      const size_t middle = std::min(first + width, n), last = std::min(first + 2 * width, n);
      size_t left = first, right = middle;
      for (size_t out = first; out < last; ++out) {
        const bool take_right = left == middle || (right < last && values[right] < values[left]);
        if (take_right) inversions += middle - left;
        spare[out] = take_right ? values[right++] : values[left++];
      }
    }
    values.swap(spare);
  }
  return inversions;
}

}  // namespace

double kendall_tau_b(std::span<const double> a, std::span<const double> b) {
  require_equal_lengths(a.size(), b.size());
  const size_t n = a.size();
  if (n < 2 || has_nan(a) || has_nan(b)) return kNan;

  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  const auto at = [](std::span<const double> values, int64_t i) { return values[i]; };
  std::ranges::sort(
      order, [&](int64_t i, int64_t j) { return at(a, i) != at(a, j) ? at(a, i) < at(a, j) : at(b, i) < at(b, j); });
  const auto tied_a_at = [&](size_t i, size_t j) { return at(a, order[i]) == at(a, order[j]); };
  const auto tied_both_at = [&](size_t i, size_t j) { return tied_a_at(i, j) && at(b, order[i]) == at(b, order[j]); };
  const int64_t tied_a = tied_pairs(n, tied_a_at);
  const int64_t tied_both = tied_pairs(n, tied_both_at);

  std::vector<double> values(n), spare(n);
  for (size_t i = 0; i < n; ++i) values[i] = at(b, order[i]);
  const int64_t discordant = sort_counting_inversions(values, spare);
  const int64_t tied_b = tied_pairs(n, [&](size_t i, size_t j) { return values[i] == values[j]; });

  const int64_t pairs = n * (n - 1) / 2;
  if (tied_b == pairs) return kNan;
  if (tied_a == pairs) return 0.0;
  const double concordant_minus_discordant = pairs - tied_a - tied_b + tied_both - 2 * discordant;
  const double tau = concordant_minus_discordant / (std::sqrt(pairs - tied_a) * std::sqrt(pairs - tied_b));
  return std::clamp(tau, -1.0, 1.0);
}

double noise_ceiling_tau(std::span<const uint64_t> configuration_hashes, std::span<const double> runtimes) {
  require_equal_lengths(configuration_hashes.size(), runtimes.size());
  std::vector<size_t> order;
  for (size_t i = 0; i < runtimes.size(); ++i)
    if (!std::isinf(runtimes[i])) order.push_back(i);
  std::ranges::stable_sort(order,
                           [&](size_t i, size_t j) { return configuration_hashes[i] < configuration_hashes[j]; });
  std::vector<double> oracle, measured;
  for (size_t first = 0, last = 0; first < order.size(); first = last) {
    double sum = 0.0;
    for (last = first; last < order.size() && configuration_hashes[order[last]] == configuration_hashes[order[first]];
         ++last) {
      sum += runtimes[order[last]];
    }
    for (size_t i = first; i < last; ++i) {
      oracle.push_back(sum / (last - first));
      measured.push_back(runtimes[order[i]]);
    }
  }
  return kendall_tau_b(oracle, measured);
}

}  // namespace foretime
