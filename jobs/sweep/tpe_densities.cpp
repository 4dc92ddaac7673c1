#include "jobs/sweep/tpe_densities.h"

#include <algorithm>
#include <cmath>

namespace foretime::jobs {

CategoryDensity::CategoryDensity(const ParameterSpace& p, const std::vector<std::string>& values) {
  const size_t n = p.values.size();
  for (size_t i = 0; i < n; ++i) {
    const double prior = p.probabilities.empty() ? 1.0 : static_cast<double>(n) * p.probabilities[i];
    // A category of probability 0 stays possible by a hair, so that ratios are finite.
    probabilities_.push_back(std::max(prior, 1e-12) +
                             static_cast<double>(std::count(values.begin(), values.end(), p.values[i])));
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

  const double narrowest = 1.0 / std::min(100.0, static_cast<double>(n) + 1);
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
  const size_t index = std::min(kernels_.size() - 1, static_cast<size_t>(which * static_cast<double>(kernels_.size())));
  const Kernel& kernel = kernels_[index];
  const double p = std::clamp(kernel.below + where * kernel.mass, 1e-300, 1 - 0x1p-53);
  return std::clamp(kernel.center + kernel.width * normal_quantile(p), 0.0, std::nextafter(1.0, 0.0));
}

double ParzenDensity::log_density(const UnitInterval& at) const {
  double sum = 0;
  for (const Kernel& kernel : kernels_) {
    const double low = (at.low - kernel.center) / kernel.width;
    if (at.high > at.low) {
      sum += (normal_cdf((at.high - kernel.center) / kernel.width) - normal_cdf(low)) / kernel.mass;
    } else {
      sum += std::exp(-0.5 * low * low) / (std::sqrt(2 * M_PI) * kernel.width * kernel.mass);
    }
  }
  return std::log(std::max(sum, 1e-300) / static_cast<double>(kernels_.size()));
}

}  // namespace foretime::jobs
