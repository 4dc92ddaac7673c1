#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "configs/settings.h"
#include "jobs/queue/job.h"

/// The distributions of a search space as functions of real numbers, without rounding and text.
namespace foretime::jobs {

/// How one swept setting is sampled. Names and meanings as in W&B's sweep configuration. Those that q rounds come last,
/// in the order in which their families (uniform … beta) come before them.
FORETIME_CHOICE(Distribution, constant, categorical, int_uniform, inv_log_uniform, inv_log_uniform_values, uniform,
                log_uniform, log_uniform_values, normal, log_normal, beta, q_uniform, q_log_uniform,
                q_log_uniform_values, q_normal, q_log_normal, q_beta);

std::string to_string(Distribution distribution);
/// Empty where there is none of that name. W&B's categorical_w_probabilities is a categorical one.
std::optional<Distribution> find_distribution(const std::string& name);

struct ParameterSpace {
  std::string key{};  // full name of a setting
  Distribution distribution = Distribution::constant;
  std::vector<std::string> values{};    // constant (one) and categorical, as apply_override takes them
  std::vector<double> probabilities{};  // categorical, empty: equal
  double min = 0, max = 1;              // in the terms of the distribution: exponents for log_uniform
  double mu = 0, sigma = 1;             // normal, log_normal
  double alpha = 1, beta = 1;           // beta: W&B's a and b
  double q = 1;                         // step of the q_ distributions
  bool integer = false;                 // a continuous one is rounded to whole numbers
};

/// The numbers of a parameter by their keys in sweep files and JSON.
constexpr std::pair<const char*, double ParameterSpace::*> kParameterNumbers[] = {
    {"min", &ParameterSpace::min},     {"max", &ParameterSpace::max}, {"mu", &ParameterSpace::mu},
    {"sigma", &ParameterSpace::sigma}, {"a", &ParameterSpace::alpha}, {"b", &ParameterSpace::beta},
    {"q", &ParameterSpace::q}};

/// `found X, expected Y` where the numbers of a parameter make no distribution, else empty.
std::string check(const ParameterSpace& parameter);

/// All swept settings, sorted by key.
using SearchSpace = std::vector<ParameterSpace>;

/// A list of {key, distribution, values, probabilities, min, max, mu, sigma, a, b, q, integer}.
std::string to_json(const SearchSpace& space);
SearchSpace parse_search_space(const std::string& json);  // throws SweepError

/// The value for a uniform number u in [0, 1), by the inverse of the distribution; int_uniform and q_ ones are rounded:
/// q_ to the nearest multiple of q, which may lie up to q / 2 outside of min and max, as in W&B.
std::string value_at(const ParameterSpace& parameter, double u);
/// Trial number `trial` of a random sweep. It depends on its arguments alone, so that a sweep can be cut or extended
/// and stays the same. Of a space with a grid, the combinations come in a random order, and none a second time before
/// all were drawn; where values have probabilities, the likelier come earlier, and a grid above kMostWeighted is drawn
/// from with repetitions. Else each parameter is drawn by itself.
constexpr int64_t kMostWeighted = 4096;
Parameters random_trial(const SearchSpace& space, uint64_t seed, int64_t trial);
/// Number of combinations; empty where a parameter is continuous.
/// Above 2^62 the number is the largest of its type.
std::optional<int64_t> grid_size(const SearchSpace& space);
/// Combination `index`, the last key fastest. constant, categorical, int_uniform and q_uniform can be enumerated.
Parameters grid_trial(const SearchSpace& space, int64_t index);

/// One trial that a Bayesian search has seen: its value, or none while it runs (the constant liar fills in the worst).
struct Observation {
  Parameters parameters;
  std::optional<double> value;
};

/// Trials that are sampled at random before the estimator has something to go by.
constexpr int64_t kStartup = 10;
/// Draws from the good density, of which the one with the best ratio is taken.
constexpr int64_t kCandidates = 24;
/// Of more trials that are not among the good ones, so many stand for all: evenly over their values and ages.
constexpr size_t kRest = 1000;

/// The next trial by a tree-structured Parzen estimator (Bergstra et al. 2011, "Algorithms for hyper-parameter
/// optimization"; each parameter on its own, as in Optuna's default). Of the n trials with a value the best
/// ceil(n / 10), at most 25, are the good ones. For each parameter the densities of the good and of the other trials
/// are estimated in the distribution's own unit space (its cumulative probability, so logarithmic where the
/// distribution is): Gaussian kernels, cut to [0, 1], each as wide as the gap to its farther neighbour, and the
/// distribution itself as one more kernel; of kCandidates samples of the good density the one with the best ratio is
/// taken. Categories have counts smoothed by their probabilities. Trials without a value (they run, or failed) count as
/// the worst (constant liar), so agents that decide at once do not decide the same. A proposal that was seen already is
/// sampled again a few times, and then, in a space with a grid, replaced by the next combination of random_trial that
/// was not seen, if any is left. The time of a proposal is bounded by kRest. With fewer than kStartup values it is
/// random_trial(space, seed, trial). Earlier trials that lack a parameter do not count for it. A function of its
/// arguments alone.
Parameters propose_trial(const SearchSpace& space, const std::vector<const Observation*>& seen, bool maximize,
                         uint64_t seed, int64_t trial);

/// Phi(x), the standard normal distribution function.
double normal_cdf(double x);
/// Its inverse for p in (0, 1).
double normal_quantile(double p);
/// I_x(a, b), the regularised incomplete beta function: 0 below the range of x and 1 above it.
double beta_cdf(double x, double a, double b);
/// Its inverse for p in [0, 1].
double beta_quantile(double p, double a, double b);

/// The distribution before q rounds it: uniform of q_uniform.
Distribution family_of(Distribution distribution);
bool is_quantized(Distribution distribution);  // the q_ ones
/// The u of normal and log-normal ones is cut to [kTail, 1 - kTail] (3.7 sigma), so that bounds checked there hold for
/// all trials.
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

/// How probable each category is, given trials that had it: (count + K p) / (n + K) for K categories of prior
/// probability p (Bergstra et al. 2011, section 4).
class CategoryDensity {
 public:
  CategoryDensity(const ParameterSpace& parameter, const std::vector<std::string>& values);
  double probability(size_t category) const { return probabilities_[category]; }
  size_t draw(double u) const;

 private:
  std::vector<double> probabilities_;
};

/// A mixture of Gaussians on [0, 1], each cut to that interval: one for each trial, and one as wide as the interval for
/// the prior. A kernel's width is the distance to its farther neighbour (the outermost have one neighbour only), within
/// [1 / min(100, n + 2), 1], as in Optuna's Parzen estimator.
class ParzenDensity {
 public:
  explicit ParzenDensity(const std::vector<UnitInterval>& seen);
  /// `which` chooses the kernel, `where` the place in it; both uniform.
  double draw(double which, double where) const;
  /// Of a point, or of the mass of an interval.
  double log_density(const UnitInterval& at) const;

 private:
  struct Kernel {
    double center, width;
    double below, mass;  // of the uncut Gaussian: left of 0, within [0, 1]
  };
  std::vector<Kernel> kernels_;
};

}  // namespace foretime::jobs
