#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "base/counter_random.h"
#include "jobs/sweep/search_space.h"

namespace foretime::jobs {
namespace {

/// Attempts to propose something that no trial had yet, for spaces with few points.
constexpr uint64_t kAttempts = 8;

/// The trials whose parameters are known, in two parts.
struct Split {
  std::vector<const Parameters*> good, rest;
};

Split split_trials(const std::vector<const Observation*>& seen, bool maximize) {
  std::vector<const Observation*> finished;
  Split split;
  for (const Observation* trial : seen) {
    if (trial->value && std::isfinite(*trial->value)) finished.push_back(trial);
    else split.rest.push_back(&trial->parameters);
  }
  std::stable_sort(finished.begin(), finished.end(), [&](const Observation* a, const Observation* b) {
    return maximize ? *a->value > *b->value : *a->value < *b->value;
  });
  const size_t count = std::min<size_t>(25, (finished.size() + 9) / 10);
  for (size_t i = 0; i < finished.size(); ++i)
    (i < count ? split.good : split.rest).push_back(&finished[i]->parameters);
  if (split.rest.size() > kMostOtherTrials) {
    std::vector<const Parameters*> some;
    for (size_t i = 0; i < kMostOtherTrials; ++i) some.push_back(split.rest[i * split.rest.size() / kMostOtherTrials]);
    split.rest = std::move(some);
  }
  return split;
}

std::vector<std::string> values_of(const std::string& key, const std::vector<const Parameters*>& trials) {
  std::vector<std::string> values;
  for (const Parameters* trial : trials) {
    const auto found = trial->find(key);
    if (found != trial->end()) values.push_back(found->second);
  }
  return values;
}

std::string propose_category(const ParameterSpace& p, const Split& split, uint64_t salt) {
  const CategoryDensity good(p, values_of(p.key, split.good)), rest(p, values_of(p.key, split.rest));
  size_t best = 0;
  double best_ratio = -1;
  for (int64_t i = 0; i < kCandidates; ++i) {
    const size_t category = good.draw(random_unit({salt, i}));
    const double ratio = good.probability(category) / rest.probability(category);
    if (ratio > best_ratio) best = category, best_ratio = ratio;
  }
  return p.values.at(best);
}

std::string propose_number(const ParameterSpace& p, const Split& split, uint64_t salt) {
  const auto intervals = [&](const std::vector<const Parameters*>& trials) {
    std::vector<UnitInterval> known;
    for (const std::string& value : values_of(p.key, trials)) known.push_back(unit_interval(p, value));
    return known;
  };
  const ParzenDensity good(intervals(split.good)), rest(intervals(split.rest));
  std::string best;
  double best_score = 0;
  for (int64_t i = 0; i < kCandidates; ++i) {
    const uint64_t candidate = i;
    const double u = good.draw(random_unit({salt, candidate, 0}), random_unit({salt, candidate, 1}));
    const std::string value = value_at(p, u);
    const UnitInterval at = unit_interval(p, value);
    const double score = good.log_density(at) - rest.log_density(at);
    if (i == 0 || score > best_score) best = value, best_score = score;
  }
  return best;
}

/// The first combination of a grid, in the order of random_trial from number `trial` on, that is new; else `fallback`.
Parameters unseen_combination(const SearchSpace& space, const std::vector<const Observation*>& seen, uint64_t seed,
                              int64_t trial, const Parameters& fallback) {
  const auto size = grid_size(space);
  if (!size) return fallback;
  std::set<Parameters> done;
  for (const Observation* observation : seen) done.insert(observation->parameters);
  const int64_t first = trial % *size, round = trial - first;
  // More than were done need not be looked at, nor more than are cheap where values have probabilities.
  const auto looks = std::min({*size, std::ssize(done) + 1, kMostWeighted});
  for (int64_t i = 0; i < looks; ++i) {
    auto parameters = random_trial(space, seed, round + (first + i) % *size);
    if (!done.contains(parameters)) return parameters;
  }
  return fallback;
}

}  // namespace

CategoryDensity::CategoryDensity(const ParameterSpace& p, const std::vector<std::string>& values) {
  const size_t n = p.values.size();
  for (size_t i = 0; i < n; ++i) {
    const double prior = p.probabilities.empty() ? 1.0 : n * p.probabilities[i];
    // A category of probability 0 stays possible by a hair, so that ratios are finite.
    probabilities_.push_back(std::max(prior, 1e-12) + std::count(values.begin(), values.end(), p.values[i]));
  }
  double total = 0;
  for (const double weight : probabilities_) total += weight;
  for (double& weight : probabilities_) weight /= total;
}

size_t CategoryDensity::draw(double u) const {
  double sum = 0;
  for (size_t i = 0; i < probabilities_.size(); ++i) {
    sum += probabilities_[i];
    if (u < sum) return i;
  }
  return probabilities_.size() - 1;
}

ParzenDensity::ParzenDensity(const std::vector<UnitInterval>& seen) {
  std::vector<double> centers = {0.5};  // the prior
  for (const UnitInterval& interval : seen) centers.push_back(interval.middle());
  const size_t n = centers.size();
  std::vector<size_t> order(n);
  for (size_t i = 0; i < n; ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return centers[a] < centers[b]; });

  const double narrowest = 1.0 / std::min(100.0, n + 1.0);
  for (size_t i = 0; i < n; ++i) {
    const double center = centers[order[i]];
    double width = 1;
    if (order[i] != 0) {
      const double left = i > 0 ? center - centers[order[i - 1]] : 0;
      const double right = i + 1 < n ? centers[order[i + 1]] - center : 0;
      width = std::clamp(std::max(left, right), narrowest, 1.0);
    }
    const double below = normal_cdf(-center / width);
    kernels_.push_back({center, width, below, normal_cdf((1 - center) / width) - below});
  }
}

double ParzenDensity::draw(double which, double where) const {
  const size_t index = std::min<size_t>(kernels_.size() - 1, which * kernels_.size());
  const Kernel& kernel = kernels_[index];
  const double p = std::clamp(kernel.below + where * kernel.mass, 1e-300, 1 - 0x1p-53);
  return std::clamp(kernel.center + kernel.width * normal_quantile(p), 0.0, std::nextafter(1.0, 0.0));
}

double ParzenDensity::log_density(const UnitInterval& at) const {
  double sum = 0;
  for (const Kernel& kernel : kernels_) {
    const double low = (at.low - kernel.center) / kernel.width;
    if (at.high > at.low) sum += (normal_cdf((at.high - kernel.center) / kernel.width) - normal_cdf(low)) / kernel.mass;
    else sum += std::exp(-0.5 * low * low) / (std::sqrt(2 * M_PI) * kernel.width * kernel.mass);
  }
  return std::log(std::max(sum, 1e-300) / kernels_.size());
}

Parameters propose_trial(const SearchSpace& space, const std::vector<const Observation*>& seen, bool maximize,
                         uint64_t seed, int64_t trial) {
  const auto finished = std::count_if(seen.begin(), seen.end(), [](const Observation* observation) {
    return observation->value && std::isfinite(*observation->value);
  });
  const auto is_seen = [&](const Parameters& parameters) {
    return std::any_of(seen.begin(), seen.end(),
                       [&](const Observation* observation) { return observation->parameters == parameters; });
  };
  if (finished < kRandomTrials) {
    auto parameters = random_trial(space, seed, trial);
    return is_seen(parameters) ? unseen_combination(space, seen, seed, trial, parameters) : parameters;
  }
  const Split split = split_trials(seen, maximize);
  Parameters parameters;
  for (uint64_t attempt = 0; attempt < kAttempts; ++attempt) {
    for (const ParameterSpace& p : space) {
      const uint64_t salt = mix(mix(mix(mix(seed ^ random_stream::search) ^ trial) ^ hash_text(p.key)) ^ attempt);
      if (p.distribution == Distribution::constant) parameters[p.key] = p.values.at(0);
      else if (p.distribution == Distribution::categorical) parameters[p.key] = propose_category(p, split, salt);
      else parameters[p.key] = propose_number(p, split, salt);
    }
    if (!is_seen(parameters)) return parameters;
  }
  return unseen_combination(space, seen, seed, trial, parameters);
}

}  // namespace foretime::jobs
