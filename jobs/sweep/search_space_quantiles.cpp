#include "jobs/sweep/search_space_quantiles.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include <boost/math/special_functions/beta.hpp>
#include <boost/math/special_functions/erf.hpp>
#include <fmt/format.h>

#include "jobs/error.h"

namespace foretime::jobs {
namespace {

double fraction_between(double x, double low, double high) {
  if (high <= low) return x < low ? 0 : 1;
  return std::clamp((x - low) / (high - low), 0.0, 1.0);
}

double log_or_lowest(double x) { return x > 0 ? std::log(x) : -std::numeric_limits<double>::infinity(); }

}  // namespace

double normal_cdf(double x) { return 0.5 * std::erfc(-x * M_SQRT1_2); }

double normal_quantile(double p) { return -M_SQRT2 * boost::math::erfc_inv(2 * p); }

double beta_cdf(double x, double a, double b) { return boost::math::ibeta(a, b, std::clamp(x, 0.0, 1.0)); }

double beta_quantile(double p, double a, double b) { return boost::math::ibeta_inv(a, b, p); }

bool is_quantized(Distribution d) {
  return d == Distribution::q_uniform || d == Distribution::q_log_uniform || d == Distribution::q_log_uniform_values ||
         d == Distribution::q_normal || d == Distribution::q_log_normal || d == Distribution::q_beta;
}

bool is_unbounded(Distribution d) {
  return d == Distribution::normal || d == Distribution::q_normal || d == Distribution::log_normal ||
         d == Distribution::q_log_normal;
}

double quantile(const ParameterSpace& p, double u) {
  const auto between = [&](double low, double high) { return low + u * (high - low); };
  switch (p.distribution) {
    case Distribution::uniform:
    case Distribution::q_uniform:
      return std::clamp(between(p.min, p.max), p.min, p.max);
    case Distribution::log_uniform:
    case Distribution::q_log_uniform:
      return std::exp(between(p.min, p.max));
    case Distribution::inv_log_uniform:
      return std::exp(-between(p.max, p.min));
    case Distribution::log_uniform_values:
    case Distribution::q_log_uniform_values:
    case Distribution::inv_log_uniform_values:  // log(1/x) uniform is log(x) uniform: the same values
      if (u <= 0) return p.min;                 // and not what rounding makes of exp(log(min))
      return std::clamp(std::exp(between(std::log(p.min), std::log(p.max))), p.min, p.max);
    case Distribution::normal:
    case Distribution::q_normal:
      return p.mu + p.sigma * normal_quantile(std::clamp(u, kTail, 1 - kTail));
    case Distribution::log_normal:
    case Distribution::q_log_normal:
      return std::exp(p.mu + p.sigma * normal_quantile(std::clamp(u, kTail, 1 - kTail)));
    case Distribution::beta:
    case Distribution::q_beta:
      return beta_quantile(u, p.alpha, p.beta);
    case Distribution::constant:
    case Distribution::categorical:
    case Distribution::int_uniform:
      break;
  }
  throw SweepError(fmt::format("{}: has no continuous distribution", p.key));
}

double cumulative(const ParameterSpace& p, double x) {
  const auto normal = [&](double z) { return p.sigma > 0 ? normal_cdf((z - p.mu) / p.sigma) : (z < p.mu ? 0.0 : 1.0); };
  switch (p.distribution) {
    case Distribution::uniform:
    case Distribution::q_uniform:
      return fraction_between(x, p.min, p.max);
    case Distribution::log_uniform:
    case Distribution::q_log_uniform:
      return fraction_between(log_or_lowest(x), p.min, p.max);
    case Distribution::inv_log_uniform:
      return fraction_between(log_or_lowest(x), -p.max, -p.min);
    case Distribution::log_uniform_values:
    case Distribution::q_log_uniform_values:
    case Distribution::inv_log_uniform_values:
      return fraction_between(log_or_lowest(x), std::log(p.min), std::log(p.max));
    case Distribution::normal:
    case Distribution::q_normal:
      return normal(x);
    case Distribution::log_normal:
    case Distribution::q_log_normal:
      return normal(log_or_lowest(x));
    case Distribution::beta:
    case Distribution::q_beta:
      return beta_cdf(x, p.alpha, p.beta);
    case Distribution::constant:
    case Distribution::categorical:
    case Distribution::int_uniform:
      break;
  }
  throw SweepError(fmt::format("{}: has no continuous distribution", p.key));
}

std::string value_text(double value) {
  if (value == std::floor(value) && std::abs(value) <= 0x1p53) return fmt::format("{}", static_cast<int64_t>(value));
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

UnitInterval unit_interval(const ParameterSpace& p, const std::string& value) {
  double x = 0;
  const char* end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, x);
  if (error != std::errc() || stop != end)
    throw SweepError(fmt::format("{}: found '{}' in an earlier trial, expected a number", p.key, value.substr(0, 100)));
  if (p.distribution == Distribution::int_uniform) {
    const double count = p.max - p.min + 1;
    return {std::clamp((x - p.min) / count, 0.0, 1.0), std::clamp((x - p.min + 1) / count, 0.0, 1.0)};
  }
  if (is_quantized(p.distribution)) return {cumulative(p, x - p.q / 2), cumulative(p, x + p.q / 2)};
  const double u = cumulative(p, x);
  return {u, u};
}

}  // namespace foretime::jobs
