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
/// Returns the distribution of this name, with categorical_w_probabilities for categorical; empty for an unknown name.
std::optional<Distribution> find_distribution(const std::string& name);

/// Describes the distribution of one swept setting.
struct ParameterSpace {
  std::string key{};  // full name of the setting
  Distribution distribution = Distribution::constant;
  std::vector<std::string> values{};    // values of constant (one) and categorical, as apply_override takes them
  std::vector<double> probabilities{};  // categorical: one for each value, sum 1; empty: all are equal
  double min = 0, max = 1;              // bounds of the value; of its exponent for log_uniform and inv_log_uniform
  double mu = 0, sigma = 1;             // normal, log_normal: mean and deviation of the value or of its logarithm
  double alpha = 1, beta = 1;           // beta: shapes, W&B's a and b
  double q = 1;                         // q_ distributions: values are multiples of q
  bool integer = false;                 // continuous distributions: values are rounded to whole numbers
};

/// Lists the number members of ParameterSpace by their keys in sweep files and JSON.
constexpr std::pair<const char*, double ParameterSpace::*> kParameterNumbers[] = {
    {"min", &ParameterSpace::min},     {"max", &ParameterSpace::max}, {"mu", &ParameterSpace::mu},
    {"sigma", &ParameterSpace::sigma}, {"a", &ParameterSpace::alpha}, {"b", &ParameterSpace::beta},
    {"q", &ParameterSpace::q}};

/// Returns a text such as `found X, expected Y` if the members of a parameter contradict its distribution; else empty.
std::string check(const ParameterSpace& parameter);

/// Lists all swept settings, sorted by key.
using SearchSpace = std::vector<ParameterSpace>;

/// Returns a JSON list of {key, distribution, values, probabilities}, or with the numbers and `integer` without values.
std::string to_json(const SearchSpace& space);
/// Parses the text of to_json(), and sorts it by key. Throws SweepError for other text and for a parameter that check()
/// refuses.
SearchSpace parse_search_space(const std::string& json);

/// Returns the value for a uniform number u in [0, 1), by the inverse distribution function. int_uniform is rounded to
/// whole numbers, and q_ distributions to the nearest multiple of q, up to q / 2 outside of min and max.
std::string value_at(const ParameterSpace& parameter, double u);
/// The largest grid whose combinations are drawn by their probabilities without repetition.
constexpr int64_t kMostWeighted = 4096;
/// Returns trial number `trial` of a random sweep. Depends only on its arguments, so that a shortened or extended sweep
/// keeps its trials. If the space has a grid, the combinations come in a random order without repetition until all were
/// used, likelier ones earlier. In a space without a grid, or with probabilities and a grid above kMostWeighted, each
/// parameter is sampled independently.
Parameters random_trial(const SearchSpace& space, uint64_t seed, int64_t trial);
/// Returns the number of combinations, at most the largest int64_t; empty if a parameter cannot be enumerated: only
/// constant, categorical, int_uniform and q_uniform can.
std::optional<int64_t> grid_size(const SearchSpace& space);
/// Returns combination `index` modulo grid_size(); the last key changes fastest. Throws SweepError if there is no grid.
Parameters grid_trial(const SearchSpace& space, int64_t index);

/// Holds one trial of a Bayesian search.
struct Observation {
  Parameters parameters;
  std::optional<double> value;  // objective; empty: the trial runs or has failed, and counts as the worst
};

/// The number of trials with a value from which on the estimator is used.
constexpr int64_t kRandomTrials = 10;
/// The number of samples of the good density, of which propose_trial() takes the best.
constexpr int64_t kCandidates = 24;
/// The most trials outside the good ones that propose_trial() uses; a larger number is thinned evenly.
constexpr size_t kMostOtherTrials = 1000;

/// Proposes the next trial by a tree-structured Parzen estimator (Bergstra et al. 2011, "Algorithms for hyper-parameter
/// optimization"; each parameter independently, as in Optuna's default). Depends only on its arguments.
///
/// The good trials are the best ceil(n / 10) of the n trials with a value, at most 25. For each parameter the densities
/// of the good and of the other trials are estimated in the distribution's unit space (its cumulative probability, so
/// logarithmic for logarithmic distributions) by ParzenDensity, and for categories by CategoryDensity. Of kCandidates
/// samples of the good density, the one with the largest ratio of good to other density is taken. Trials without a
/// finite value count as the worst (constant liar), so that agents that decide at once decide differently. Trials that
/// lack a parameter do not count for it. With fewer than kRandomTrials values, the proposal is random_trial(space,
/// seed, trial). A proposal that was seen already is sampled again a few times, and then, in a space with a grid,
/// replaced by the next unseen combination of random_trial, if one is found.
Parameters propose_trial(const SearchSpace& space, const std::vector<const Observation*>& seen, bool maximize,
                         uint64_t seed, int64_t trial);

/// Returns the standard normal distribution function Phi(x).
double normal_cdf(double x);
/// Returns the inverse of normal_cdf for p in (0, 1).
double normal_quantile(double p);
/// Returns the regularised incomplete beta function I_x(a, b): 0 for x below 0 and 1 for x above 1.
double beta_cdf(double x, double a, double b);
/// Returns the inverse of beta_cdf for p in [0, 1].
double beta_quantile(double p, double a, double b);

/// Returns the distribution without rounding to q: uniform for q_uniform; other distributions unchanged.
Distribution family_of(Distribution distribution);
bool is_quantized(Distribution distribution);  // true for q_ distributions
/// The u of normal and log-normal distributions is cut to [kTail, 1 - kTail] (3.7 sigma), so that values are bounded.
constexpr double kTail = 1e-4;

/// Returns the inverse distribution function at u in [0, 1], without rounding to q or to integers. Throws SweepError
/// for constant, categorical and int_uniform.
double quantile(const ParameterSpace& parameter, double u);
/// Returns the distribution function at x, the inverse of quantile(): 0 below the range, 1 above it. Throws like
/// quantile().
double cumulative(const ParameterSpace& parameter, double x);

/// Returns a number as apply_override takes it for integers and doubles: a whole number of at most 2^53 without
/// exponent, any other in the shortest form that reads back as the same double.
std::string value_text(double value);

/// The interval of all u for which value_at() gives the same value; low = high if the distribution is continuous.
struct UnitInterval {
  double low = 0, high = 1;
  double middle() const { return 0.5 * (low + high); }
};
/// Returns the interval of `value`. Throws SweepError if `value` is no number or the distribution is constant or
/// categorical.
UnitInterval unit_interval(const ParameterSpace& parameter, const std::string& value);

/// Estimates the probability of each value of a categorical parameter from the values of n trials: (count + K p) / (n +
/// K) for K values of prior probability p (Bergstra et al. 2011, section 4).
class CategoryDensity {
 public:
  /// `values` are those of the trials. Values that are not in `parameter.values` are ignored.
  CategoryDensity(const ParameterSpace& parameter, const std::vector<std::string>& values);
  /// Returns the probability of parameter.values[category].
  double probability(size_t category) const { return probabilities_[category]; }
  size_t draw(double u) const;  // returns a random category for a uniform number u in [0, 1)

 private:
  std::vector<double> probabilities_;
};

/// A density on [0, 1]: the mean of Gaussian kernels, each cut to that interval. One kernel has center 0.5 and width 1
/// (the prior). The others are centered at the values of n trials. The width (standard deviation) of such a kernel is
/// the distance to the farther of its two neighbours, within [1 / min(100, n + 2), 1], as in Optuna's Parzen estimator.
class ParzenDensity {
 public:
  /// Makes the density of trials whose values have the intervals `seen` (unit_interval); their middles are the centers.
  explicit ParzenDensity(const std::vector<UnitInterval>& seen);
  /// Returns a sample in [0, 1). `which` chooses the kernel and `where` the position in it; both are uniform in [0, 1).
  double draw(double which, double where) const;
  /// Returns the logarithm of the density at the point `at` (low = high), or of the probability of the interval `at`.
  double log_density(const UnitInterval& at) const;

 private:
  struct Kernel {
    double center, width;
    double below, mass;  // probabilities that the uncut Gaussian gives to values below 0 and to values in [0, 1]
  };
  std::vector<Kernel> kernels_;
};

}  // namespace foretime::jobs
