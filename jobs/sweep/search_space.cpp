#include "jobs/sweep/search_space.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/counter_random.h"
#include "jobs/error.h"
#include "jobs/sweep/search_space_quantiles.h"

namespace foretime::jobs {
namespace {

/// Fifteen digits: 3 x 0.1 is 0.3.
double without_rounding_noise(double value) { return std::stod(fmt::format("{:.15g}", value)); }

std::string multiple_text(const ParameterSpace& p, double count) {
  return value_text(without_rounding_noise(count * p.q) + 0.0);  // + 0.0: never -0
}

/// Ties go to the even multiple, as numpy's round does.
double nearest_multiple(const ParameterSpace& p, double value) { return std::nearbyint(value / p.q); }

size_t category_at(const ParameterSpace& p, double u) {
  const size_t n = p.values.size();
  if (p.probabilities.empty()) return std::min(n - 1, static_cast<size_t>(u * static_cast<double>(n)));
  double total = 0;
  for (const double probability : p.probabilities) total += probability;
  double sum = 0;
  for (size_t i = 0; i < n; ++i) {
    sum += p.probabilities[i];
    if (u * total < sum) return i;
  }
  return n - 1;
}

/// Number of values in a grid; 0: not enumerable.
double count_of(const ParameterSpace& p) {
  switch (p.distribution) {
    case Distribution::constant:
      return 1;
    case Distribution::categorical:
      return static_cast<double>(p.values.size());
    case Distribution::int_uniform:
      return p.max - p.min + 1;
    case Distribution::q_uniform:
      return nearest_multiple(p, p.max) - nearest_multiple(p, p.min) + 1;
    default:
      return 0;
  }
}

std::string grid_value(const ParameterSpace& p, int64_t index) {
  switch (p.distribution) {
    case Distribution::int_uniform:
      return value_text(p.min + static_cast<double>(index));
    case Distribution::q_uniform:
      return multiple_text(p, nearest_multiple(p, p.min) + static_cast<double>(index));
    default:
      return p.values.at(static_cast<size_t>(index));
  }
}

}  // namespace

std::string value_at(const ParameterSpace& p, double u) {
  u = std::clamp(u, 0.0, std::nextafter(1.0, 0.0));
  switch (p.distribution) {
    case Distribution::constant:
      return p.values.at(0);
    case Distribution::categorical:
      return p.values.at(category_at(p, u));
    case Distribution::int_uniform:
      return value_text(std::min(p.max, p.min + std::floor(u * (p.max - p.min + 1))));
    default:
      break;
  }
  const double value = quantile(p, u);
  if (is_quantized(p.distribution)) return multiple_text(p, nearest_multiple(p, value));
  return value_text((p.integer ? std::nearbyint(value) : value) + 0.0);
}

Parameters random_trial(const SearchSpace& space, uint64_t seed, int64_t trial) {
  Parameters parameters;
  for (const ParameterSpace& p : space)
    parameters[p.key] = value_at(p, random_unit({seed, static_cast<uint64_t>(trial), hash_text(p.key)}));
  return parameters;
}

std::optional<int64_t> grid_size(const SearchSpace& space) {
  double size = 1;
  for (const ParameterSpace& p : space) {
    const double count = count_of(p);
    if (count < 1) return std::nullopt;
    size *= count;
  }
  // Past 2^62 the exact number is of no interest, and would not fit.
  return size < 0x1p62 ? static_cast<int64_t>(size) : std::numeric_limits<int64_t>::max();
}

Parameters grid_trial(const SearchSpace& space, int64_t index) {
  Parameters parameters;
  for (auto p = space.rbegin(); p != space.rend(); ++p) {
    const double count = count_of(*p);
    if (count < 1) throw SweepError(fmt::format("{}: is continuous and has no grid", p->key));
    const auto whole = static_cast<int64_t>(std::min(count, 0x1p62));
    parameters[p->key] = grid_value(*p, index % whole);
    index /= whole;
  }
  return parameters;
}

}  // namespace foretime::jobs
