#pragma once

#include <string>

#include "jobs/sweep/search_space.h"

/// The distributions of a search space as functions of real numbers, without rounding and text.
namespace foretime::jobs {

/// Phi(x), the standard normal distribution function.
double normal_cdf(double x);
/// Its inverse for p in (0, 1).
double normal_quantile(double p);
/// I_x(a, b), the regularised incomplete beta function: 0 below the range of x and 1 above it.
double beta_cdf(double x, double a, double b);
/// Its inverse for p in [0, 1].
double beta_quantile(double p, double a, double b);

bool is_quantized(Distribution distribution);  // the q_ ones
/// The normal ones. Their u is cut to [kTail, 1 - kTail] (3.7 sigma), so that bounds checked there hold for all trials.
bool is_unbounded(Distribution distribution);
constexpr double kTail = 1e-4;

/// The inverse distribution function at u in [0, 1], before q rounds it; not for constant, categorical, int_uniform.
double quantile(const ParameterSpace& parameter, double u);
/// The distribution function: 0 below the range and 1 above it.
double cumulative(const ParameterSpace& parameter, double x);

/// A number as apply_override takes it for integers and doubles alike: whole ones without exponent, others in shortest
/// round-trip form.
std::string value_text(double value);

/// The u for which value_at gives `value`: a point where the distribution is continuous, else low < high.
struct UnitInterval {
  double low = 0, high = 1;
  double middle() const { return 0.5 * (low + high); }
};
/// Throws SweepError where `value` is no number.
UnitInterval unit_interval(const ParameterSpace& parameter, const std::string& value);

}  // namespace foretime::jobs
