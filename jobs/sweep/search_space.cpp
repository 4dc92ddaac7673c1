#include "jobs/sweep/search_space.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include <boost/math/special_functions/beta.hpp>
#include <boost/math/special_functions/erf.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/counter_random.h"
#include "base/numbers.h"
#include "jobs/error.h"

namespace foretime::jobs {
namespace {

using D = Distribution;
using nlohmann::json;

/// Fifteen digits: 3 x 0.1 is 0.3.
double without_rounding_noise(double value) {
  return parse_number<double>(fmt::format("{:.15g}", value)).value_or(value);
}

std::string multiple_text(const ParameterSpace& p, double count) {
  return value_text(without_rounding_noise(count * p.q) + 0.0);  // + 0.0: never -0
}

/// Ties go to the even multiple, as numpy's round does.
double nearest_multiple(const ParameterSpace& p, double value) { return std::nearbyint(value / p.q); }

size_t category_at(const ParameterSpace& p, double u) {
  const size_t n = p.values.size();
  if (p.probabilities.empty()) return std::min<size_t>(n - 1, u * n);
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
    case D::constant: return 1;
    case D::categorical: return p.values.size();
    case D::int_uniform: return p.max - p.min + 1;
    case D::q_uniform: return nearest_multiple(p, p.max) - nearest_multiple(p, p.min) + 1;
    default: return 0;
  }
}

std::string grid_value(const ParameterSpace& p, int64_t index) {
  switch (p.distribution) {
    case D::int_uniform: return value_text(p.min + index);
    case D::q_uniform: return multiple_text(p, nearest_multiple(p, p.min) + index);
    default: return p.values.at(index);
  }
}

/// Above it a repetition is unlikely.
constexpr int64_t kMostPermuted = int64_t{1} << 53;

/// Returns combination number `rank` of a grid in descending order of log-probability + Gumbel variate.
Parameters weighted_trial(const SearchSpace& space, int64_t size, uint64_t key, int64_t rank) {
  std::vector<std::pair<double, int64_t>> order;
  for (int64_t index = 0; index < size; ++index) {
    double weight = 1;
    int64_t rest = index;  // decomposed like grid_trial's index
    for (auto p = space.rbegin(); p != space.rend(); ++p) {
      const int64_t count = count_of(*p);
      if (!p->probabilities.empty()) weight *= std::max(p->probabilities[rest % count], 1e-12);
      rest /= count;
    }
    order.emplace_back(-std::log(weight) - random_gumbel({key, index}), index);
  }
  std::nth_element(order.begin(), order.begin() + rank, order.end());
  return grid_trial(space, order[rank].second);
}

double fraction_between(double x, double low, double high) {
  if (high <= low) return x < low ? 0 : 1;
  return std::clamp((x - low) / (high - low), 0.0, 1.0);
}

double log_or_lowest(double x) { return x > 0 ? std::log(x) : -std::numeric_limits<double>::infinity(); }

}  // namespace

std::string value_at(const ParameterSpace& p, double u) {
  u = std::clamp(u, 0.0, std::nextafter(1.0, 0.0));
  switch (p.distribution) {
    case D::constant: return p.values.at(0);
    case D::categorical: return p.values.at(category_at(p, u));
    case D::int_uniform: return value_text(std::min(p.max, p.min + std::floor(u * (p.max - p.min + 1))));
    default: break;
  }
  const double value = quantile(p, u);
  if (is_quantized(p.distribution)) return multiple_text(p, nearest_multiple(p, value));
  return value_text((p.integer ? std::nearbyint(value) : value) + 0.0);
}

Parameters random_trial(const SearchSpace& space, uint64_t seed, int64_t trial) {
  const auto size = grid_size(space);
  const bool weighted = std::any_of(space.begin(), space.end(), [](const auto& p) { return !p.probabilities.empty(); });
  if (size && *size < (weighted ? kMostWeighted + 1 : kMostPermuted)) {
    const uint64_t key = random_bits({seed, random_stream::search_order, trial / *size});
    if (weighted) return weighted_trial(space, *size, key, trial % *size);
    const KeyedPermutation order(*size, key);
    return grid_trial(space, order(trial % *size));
  }
  Parameters parameters;
  for (const ParameterSpace& p : space) parameters[p.key] = value_at(p, random_unit({seed, trial, hash_text(p.key)}));
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
    if (count < 1) throw SweepError("{}: is continuous and has no grid", p->key);
    const int64_t whole = std::min(count, 0x1p62);
    parameters[p->key] = grid_value(*p, index % whole);
    index /= whole;
  }
  return parameters;
}

std::string to_string(Distribution distribution) { return configs::word_of(distribution); }
bool is_quantized(Distribution distribution) { return distribution >= D::q_uniform; }

Distribution family_of(Distribution distribution) {
  constexpr auto kFamilies = static_cast<int>(D::q_beta) - static_cast<int>(D::beta);
  return is_quantized(distribution) ? static_cast<D>(static_cast<int>(distribution) - kFamilies) : distribution;
}

std::optional<Distribution> find_distribution(const std::string& name) {
  return configs::choice_named<Distribution>(name == "categorical_w_probabilities" ? "categorical" : name);
}

std::string check(const ParameterSpace& p) {
  const D d = p.distribution, family = family_of(d);
  if (p.key.empty()) return "found no key";
  if (d == D::constant || d == D::categorical) {
    if (p.values.empty()) return "found no values, expected at least one";
    if (d == D::constant && p.values.size() != 1) return fmt::format("found {} values, expected one", p.values.size());
    if (p.probabilities.empty()) return "";
    if (p.probabilities.size() != p.values.size())
      return fmt::format("found {} probabilities for {} values", p.probabilities.size(), p.values.size());
    double total = 0;
    for (const double probability : p.probabilities) {
      if (!(probability >= 0) || !std::isfinite(probability))
        return fmt::format("found the probability {}, expected at least 0", probability);
      total += probability;
    }
    if (std::abs(total - 1) > 1e-6) return fmt::format("found probabilities that add up to {}, expected 1", total);
    return "";
  }
  for (const auto& [name, number] : kParameterNumbers)
    if (!std::isfinite(p.*number)) return "found a number that is not finite";
  if (!(p.q > 0)) return fmt::format("found q {}, expected > 0", p.q);
  if (family == D::normal || family == D::log_normal)
    return p.sigma >= 0 ? "" : fmt::format("found sigma {}, expected >= 0", p.sigma);
  if (family == D::beta)
    return p.alpha > 0 && p.beta > 0 ? "" : fmt::format("found a {} and b {}, expected > 0", p.alpha, p.beta);
  if (p.min > p.max) return fmt::format("found min {} above max {}", p.min, p.max);
  const bool real_logs = family == D::log_uniform_values || family == D::inv_log_uniform_values;
  if (real_logs && !(p.min > 0)) return fmt::format("found min {}, expected > 0, since its logarithm is taken", p.min);
  const bool exponents = family == D::log_uniform || family == D::inv_log_uniform;
  if (exponents && std::max(std::abs(p.min), std::abs(p.max)) > 700)
    return fmt::format(
        "found min {} and max {}, expected exponents within -700 and 700: {} takes logarithms, {}_values takes values",
        p.min, p.max, to_string(d), to_string(d));
  if (d == D::int_uniform &&
      (p.min != std::floor(p.min) || p.max != std::floor(p.max) || std::max(std::abs(p.min), std::abs(p.max)) > 0x1p52))
    return fmt::format("found min {} and max {}, expected integers of at most 52 bits", p.min, p.max);
  return "";
}

std::string to_json(const SearchSpace& space) {
  json list = json::array();
  for (const ParameterSpace& p : space) {
    json item = {{"key", p.key}, {"distribution", to_string(p.distribution)}};
    if (!p.values.empty()) item["values"] = p.values;
    if (!p.probabilities.empty()) item["probabilities"] = p.probabilities;
    if (p.values.empty()) {
      for (const auto& [name, number] : kParameterNumbers) item[name] = p.*number;
      item["integer"] = p.integer;
    }
    list.push_back(std::move(item));
  }
  return list.dump();
}

SearchSpace parse_search_space(const std::string& text) {
  SearchSpace space;
  try {
    for (const json& item : json::parse(text)) {
      ParameterSpace p{.key = item.at("key").get<std::string>()};
      const auto name = item.at("distribution").get<std::string>();
      const auto distribution = find_distribution(name);
      if (!distribution) throw SweepError("{}: found the distribution '{}'", p.key, name.substr(0, 100));
      p.distribution = *distribution;
      p.values = item.value("values", p.values);
      p.probabilities = item.value("probabilities", p.probabilities);
      for (const auto& [name, number] : kParameterNumbers) p.*number = item.value(name, p.*number);
      p.integer = item.value("integer", p.integer);
      const std::string problem = check(p);
      if (!problem.empty()) throw SweepError("{}: {}", p.key, problem);
      space.push_back(std::move(p));
    }
  } catch (const json::exception& error) {
    throw SweepError("the sweep's definition is damaged, expected a JSON list of parameters ({})", error.what());
  } catch (const SweepError& error) {
    throw SweepError("the sweep's definition is damaged: {}", error.what());
  }
  std::sort(space.begin(), space.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
  return space;
}

double normal_cdf(double x) { return 0.5 * std::erfc(-x * M_SQRT1_2); }

double normal_quantile(double p) { return -M_SQRT2 * boost::math::erfc_inv(2 * p); }

double beta_cdf(double x, double a, double b) { return boost::math::ibeta(a, b, std::clamp(x, 0.0, 1.0)); }

double beta_quantile(double p, double a, double b) { return boost::math::ibeta_inv(a, b, p); }

double quantile(const ParameterSpace& p, double u) {
  const auto between = [&](double low, double high) { return low + u * (high - low); };
  switch (family_of(p.distribution)) {
    case D::uniform: return std::clamp(between(p.min, p.max), p.min, p.max);
    case D::log_uniform: return std::exp(between(p.min, p.max));
    case D::inv_log_uniform: return std::exp(-between(p.max, p.min));
    case D::log_uniform_values:
    case D::inv_log_uniform_values:  // log(1/x) uniform is log(x) uniform: the same values
      if (u <= 0) return p.min;      // rather than exp(log(min)), which is rounded
      return std::clamp(std::exp(between(std::log(p.min), std::log(p.max))), p.min, p.max);
    case D::normal: return p.mu + p.sigma * normal_quantile(std::clamp(u, kTail, 1 - kTail));
    case D::log_normal: return std::exp(p.mu + p.sigma * normal_quantile(std::clamp(u, kTail, 1 - kTail)));
    case D::beta: return beta_quantile(u, p.alpha, p.beta);
    default: throw SweepError("{}: has no continuous distribution", p.key);
  }
}

double cumulative(const ParameterSpace& p, double x) {
  const auto normal = [&](double z) { return p.sigma > 0 ? normal_cdf((z - p.mu) / p.sigma) : (z < p.mu ? 0.0 : 1.0); };
  switch (family_of(p.distribution)) {
    case D::uniform: return fraction_between(x, p.min, p.max);
    case D::log_uniform: return fraction_between(log_or_lowest(x), p.min, p.max);
    case D::inv_log_uniform: return fraction_between(log_or_lowest(x), -p.max, -p.min);
    case D::log_uniform_values:
    case D::inv_log_uniform_values: return fraction_between(log_or_lowest(x), std::log(p.min), std::log(p.max));
    case D::normal: return normal(x);
    case D::log_normal: return normal(log_or_lowest(x));
    case D::beta: return beta_cdf(x, p.alpha, p.beta);
    default: throw SweepError("{}: has no continuous distribution", p.key);
  }
}

std::string value_text(double value) {
  if (value == std::floor(value) && std::abs(value) <= 0x1p53) return fmt::format("{}", static_cast<int64_t>(value));
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

UnitInterval unit_interval(const ParameterSpace& p, const std::string& value) {
  const auto number = parse_number<double>(value);
  if (!number) throw SweepError("{}: found '{}' in an earlier trial, expected a number", p.key, value.substr(0, 100));
  const double x = *number;
  if (p.distribution == D::int_uniform) {
    const double count = p.max - p.min + 1;
    return {std::clamp((x - p.min) / count, 0.0, 1.0), std::clamp((x - p.min + 1) / count, 0.0, 1.0)};
  }
  if (is_quantized(p.distribution)) return {cumulative(p, x - p.q / 2), cumulative(p, x + p.q / 2)};
  const double u = cumulative(p, x);
  return {u, u};
}

}  // namespace foretime::jobs
