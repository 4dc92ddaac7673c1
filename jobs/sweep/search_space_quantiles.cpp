#include "jobs/sweep/search_space_quantiles.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "jobs/error.h"

namespace foretime::jobs {
namespace {

template <size_t n>
double polynomial(const std::array<double, n>& coefficients, double x) {
  double sum = 0;
  for (const double c : coefficients) sum = sum * x + c;
  return sum;
}

/// Acklam's approximation for p <= 1/2.
double lower_quantile(double p) {
  constexpr std::array<double, 6> a = {-3.969683028665376e+01, 2.209460984245205e+02,  -2.759285104469687e+02,
                                       1.383577518672690e+02,  -3.066479806614716e+01, 2.506628277459239e+00};
  constexpr std::array<double, 6> b = {-5.447609879822406e+01, 1.615858368580409e+02,  -1.556989798598866e+02,
                                       6.680131188771972e+01,  -1.328068155288572e+01, 1};
  constexpr std::array<double, 6> c = {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
                                       -2.549732539343734e+00, 4.374664141464968e+00,  2.938163982698783e+00};
  constexpr std::array<double, 5> d = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00,
                                       3.754408661907416e+00, 1};
  double x = 0;
  if (p < 0.02425) {
    const double q = std::sqrt(-2 * std::log(p));
    x = polynomial(c, q) / polynomial(d, q);
  } else {
    const double q = p - 0.5;
    x = q * polynomial(a, q * q) / polynomial(b, q * q);
  }
  const double error = (normal_cdf(x) - p) * std::sqrt(2 * M_PI) * std::exp(x * x / 2);
  return x - error / (1 + x * error / 2);
}

/// The continued fraction of I_x(a, b), which converges fast for x < (a + 1) / (a + b + 2).
double beta_fraction(double x, double a, double b) {
  constexpr double tiny = 1e-300;
  const auto guarded = [](double value) { return std::abs(value) < tiny ? tiny : value; };
  double c = 1, d = 1 / guarded(1 - (a + b) * x / (a + 1)), h = d;
  for (int m = 1; m <= 500; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / guarded(1 + even * d);
    c = guarded(1 + even / c);
    h *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / guarded(1 + odd * d);
    c = guarded(1 + odd / c);
    const double change = d * c;
    h *= change;
    if (std::abs(change - 1) < 1e-15) break;
  }
  return h;
}

double fraction_between(double x, double low, double high) {
  if (high <= low) return x < low ? 0 : 1;
  return std::clamp((x - low) / (high - low), 0.0, 1.0);
}

double log_or_lowest(double x) { return x > 0 ? std::log(x) : -std::numeric_limits<double>::infinity(); }

}  // namespace

double normal_cdf(double x) { return 0.5 * std::erfc(-x * M_SQRT1_2); }

double normal_quantile(double p) { return p <= 0.5 ? lower_quantile(p) : -lower_quantile(1 - p); }

double beta_cdf(double x, double a, double b) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double factor =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x));
  if (x < (a + 1) / (a + b + 2)) return factor * beta_fraction(x, a, b) / a;
  return 1 - factor * beta_fraction(1 - x, b, a) / b;
}

double beta_quantile(double p, double a, double b) {
  double low = 0, high = 1;
  for (int i = 0; i < 100 && high - low > 1e-16; ++i) {
    const double middle = 0.5 * (low + high);
    (beta_cdf(middle, a, b) < p ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

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
