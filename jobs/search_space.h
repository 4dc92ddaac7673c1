#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "jobs/job.h"

namespace foretime::jobs {

/// How one swept setting is drawn. Names and meanings as in W&B's sweep configuration.
enum class Distribution {
  constant,
  categorical,
  int_uniform,
  uniform,
  q_uniform,
  log_uniform,
  log_uniform_values,
  q_log_uniform,
  q_log_uniform_values,
  inv_log_uniform,
  inv_log_uniform_values,
  normal,
  q_normal,
  log_normal,
  q_log_normal,
  beta,
  q_beta
};

struct ParameterSpace {
  std::string key;  // full name of a setting
  Distribution distribution = Distribution::constant;
  std::vector<std::string> values;    // constant (one) and categorical, as apply_override takes them
  std::vector<double> probabilities;  // categorical, empty: equal
  double min = 0, max = 1;            // in the terms of the distribution: exponents for log_uniform
  double mu = 0, sigma = 1;           // normal, log_normal
  double alpha = 1, beta = 1;
  double q = 1;          // step of the q_ distributions
  bool integer = false;  // printed without a fraction
};

/// All swept settings, sorted by key.
using SearchSpace = std::vector<ParameterSpace>;

std::string to_json(const SearchSpace& space);
SearchSpace parse_search_space(const std::string& json);  // throws SweepError

/// The value for a uniform number u in [0, 1), by the inverse of the distribution; int_uniform and q_ ones are rounded.
std::string value_at(const ParameterSpace& parameter, double u);
/// Trial number `trial` of a random sweep: a function of (seed, trial, key) alone, so that a sweep can be cut or
/// extended and stays the same.
Parameters random_trial(const SearchSpace& space, uint64_t seed, int64_t trial);
/// Number of combinations; empty where a parameter is continuous.
std::optional<int64_t> grid_size(const SearchSpace& space);
/// Combination `index`, the last key fastest. constant, categorical, int_uniform and q_uniform can be enumerated.
Parameters grid_trial(const SearchSpace& space, int64_t index);

/// One trial that a Bayesian search has seen: its value, or none while it runs (the constant liar fills in the worst).
struct Observation {
  Parameters parameters;
  std::optional<double> value;
};

/// The next trial by a tree-structured Parzen estimator (Bergstra et al. 2011; with the multivariate-independent form
/// of Optuna): the trials are split at a quantile of the objective, each parameter's density is estimated in both
/// parts, and of `kCandidates` draws from the good density the one with the best ratio is taken. Running trials count
/// as the worst value seen (constant liar), so agents that decide at once do not decide the same. The first `kStartup`
/// trials are random_trial(space, seed, trial). A function of its arguments alone.
Parameters propose_trial(const SearchSpace& space, const std::vector<Observation>& seen, bool maximize, uint64_t seed,
                         int64_t trial);

}  // namespace foretime::jobs
