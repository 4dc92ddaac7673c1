#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "configs/settings.h"
#include "jobs/queue/job.h"

/// Describes search spaces, samples them, and evaluates their distributions.
namespace foretime::jobs {

/// Lists how a swept setting can be sampled. Names and meanings are those of W&B's sweep configuration. The rounded q_
/// distributions come last, in the order of their unrounded families (uniform … beta).
FORETIME_CHOICE(Distribution, constant, categorical, int_uniform, inv_log_uniform, inv_log_uniform_values, uniform,
                log_uniform, log_uniform_values, normal, log_normal, beta, q_uniform, q_log_uniform,
                q_log_uniform_values, q_normal, q_log_normal, q_beta);

std::string to_string(Distribution distribution);
/// Returns the distribution of a name; empty for an unknown name. W&B's categorical_w_probabilities means categorical.
std::optional<Distribution> find_distribution(const std::string& name);

/// Describes the distribution of one swept setting.
struct ParameterSpace {
  std::string key{};  // full name of a setting
  Distribution distribution = Distribution::constant;
  std::vector<std::string> values{};    // values of constant (one) and categorical, as apply_override takes them
  std::vector<double> probabilities{};  // categorical; empty: equal
  double min = 0, max = 1;              // bounds in the distribution's terms: exponents for log_uniform
  double mu = 0, sigma = 1;             // normal, log_normal
  double alpha = 1, beta = 1;           // beta: W&B's a and b
  double q = 1;                         // step of the q_ distributions
  bool integer = false;                 // round continuous values to whole numbers
};

/// Lists the numbers of a parameter by their keys in sweep files and JSON.
constexpr std::pair<const char*, double ParameterSpace::*> kParameterNumbers[] = {
    {"min", &ParameterSpace::min},     {"max", &ParameterSpace::max}, {"mu", &ParameterSpace::mu},
    {"sigma", &ParameterSpace::sigma}, {"a", &ParameterSpace::alpha}, {"b", &ParameterSpace::beta},
    {"q", &ParameterSpace::q}};

/// Returns `found X, expected Y` if the numbers of a parameter make no distribution; empty if they do.
std::string check(const ParameterSpace& parameter);

/// Lists all swept settings, sorted by key.
using SearchSpace = std::vector<ParameterSpace>;

/// Returns a JSON list of {key, distribution, values, probabilities, min, max, mu, sigma, a, b, q, integer}.
std::string to_json(const SearchSpace& space);
SearchSpace parse_search_space(const std::string& json);  // throws SweepError

/// Returns the value for a uniform number u in [0, 1), by the inverse distribution function. int_uniform is rounded to
/// whole numbers, and q_ distributions to the nearest multiple of q, which may be up to q / 2 outside of min and max,
/// as in W&B.
std::string value_at(const ParameterSpace& parameter, double u);
/// Limits the size of a grid whose combinations are drawn by weight without repetitions.
constexpr int64_t kMostWeighted = 4096;
/// Returns trial number `trial` of a random sweep. Depends only on its arguments, so that a shortened or extended sweep
/// keeps its trials. In a space with a grid, the combinations come in a random order without repetition until all were
/// used; if values have probabilities, likelier combinations come earlier, and a grid above kMostWeighted is sampled
/// with repetitions. Otherwise each parameter is sampled independently.
Parameters random_trial(const SearchSpace& space, uint64_t seed, int64_t trial);
/// Returns the number of combinations, at most the largest int64_t; empty if a parameter is continuous.
std::optional<int64_t> grid_size(const SearchSpace& space);
/// Returns combination `index`, the last key fastest. Only constant, categorical, int_uniform and q_uniform can be
/// enumerated.
Parameters grid_trial(const SearchSpace& space, int64_t index);

/// Holds one trial of a Bayesian search; without a value while it runs (the constant liar uses the worst value).
struct Observation {
  Parameters parameters;
  std::optional<double> value;
};

/// Sets the number of random trials before the estimator is used.
constexpr int64_t kRandomTrials = 10;
/// Sets the number of samples of the good density, of which the one with the best ratio is taken.
constexpr int64_t kCandidates = 24;
/// Limits the trials outside the good ones: a larger number is thinned evenly over values and ages.
constexpr size_t kMostOtherTrials = 1000;

/// Proposes the next trial by a tree-structured Parzen estimator (Bergstra et al. 2011, "Algorithms for hyper-parameter
/// optimization"; each parameter independently, as in Optuna's default). Depends only on its arguments.
///
/// The good trials are the best ceil(n / 10) of the n trials with a value, at most 25. For each parameter the densities
/// of the good and of the other trials are estimated in the distribution's unit space (its cumulative probability, so
/// logarithmic for logarithmic distributions): Gaussian kernels, cut to [0, 1], each as wide as the gap to its farther
/// neighbour, and the distribution itself as one more kernel. Of kCandidates samples of the good density the one with
/// the best ratio is taken. Categories have counts smoothed by their probabilities. Trials without a value (running or
/// failed) count as the worst (constant liar), so that agents that decide at once decide differently. A proposal that
/// was seen already is sampled again a few times, and then, in a space with a grid, replaced by the next unseen
/// combination of random_trial, if any is left. kMostOtherTrials bounds the time. With fewer than kRandomTrials values
/// it is random_trial(space, seed, trial). Trials that lack a parameter do not count for it.
Parameters propose_trial(const SearchSpace& space, const std::vector<const Observation*>& seen, bool maximize,
                         uint64_t seed, int64_t trial);

/// Returns Phi(x), the standard normal distribution function.
double normal_cdf(double x);
/// Returns the inverse of normal_cdf for p in (0, 1).
double normal_quantile(double p);
/// Returns I_x(a, b), the regularised incomplete beta function: 0 below the range of x and 1 above it.
double beta_cdf(double x, double a, double b);
/// Returns the inverse of beta_cdf for p in [0, 1].
double beta_quantile(double p, double a, double b);

/// Returns the distribution before q rounds it: uniform for q_uniform.
Distribution family_of(Distribution distribution);
bool is_quantized(Distribution distribution);  // true for q_ distributions
/// Cuts the u of normal and log-normal distributions to [kTail, 1 - kTail] (3.7 sigma), so that bounds checked there
/// hold for all trials.
constexpr double kTail = 1e-4;

/// Returns the inverse distribution function at u in [0, 1], before q rounds it; not defined for constant, categorical
/// and int_uniform.
double quantile(const ParameterSpace& parameter, double u);
/// Returns the distribution function at x: 0 below the range and 1 above it.
double cumulative(const ParameterSpace& parameter, double x);

/// Returns a number as apply_override takes it for integers and doubles: whole ones without exponent, others in
/// shortest round-trip form.
std::string value_text(double value);

/// Holds the u for which value_at gives a value: a point (low = high) if the distribution is continuous, otherwise an
/// interval.
struct UnitInterval {
  double low = 0, high = 1;
  double middle() const { return 0.5 * (low + high); }
};
/// Returns the u of `value`. Throws SweepError if `value` is not a number.
UnitInterval unit_interval(const ParameterSpace& parameter, const std::string& value);

/// Estimates how probable each category is from the values of trials: (count + K p) / (n + K) for K categories of prior
/// probability p (Bergstra et al. 2011, section 4).
class CategoryDensity {
 public:
  CategoryDensity(const ParameterSpace& parameter, const std::vector<std::string>& values);
  double probability(size_t category) const { return probabilities_[category]; }
  size_t draw(double u) const;

 private:
  std::vector<double> probabilities_;
};

/// A mixture of Gaussians on [0, 1], each cut to that interval: one for each trial, and one as wide as the interval
/// for the prior. A kernel's width is the distance to its farther neighbour (the outermost have one neighbour only),
/// within [1 / min(100, n + 2), 1], as in Optuna's Parzen estimator.
class ParzenDensity {
 public:
  explicit ParzenDensity(const std::vector<UnitInterval>& seen);
  /// Returns a sample. `which` chooses the kernel and `where` the position in it; both are uniform in [0, 1).
  double draw(double which, double where) const;
  /// Returns the logarithm of the density at a point, or of the mass of an interval.
  double log_density(const UnitInterval& at) const;

 private:
  struct Kernel {
    double center, width;
    double below, mass;  // mass of the uncut Gaussian left of 0 and within [0, 1]
  };
  std::vector<Kernel> kernels_;
};

}  // namespace foretime::jobs
