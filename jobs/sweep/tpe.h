#pragma once

#include <string>
#include <vector>

#include "jobs/sweep/search_space.h"

namespace foretime::jobs {

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
