#pragma once

#include <optional>
#include <string>
#include <vector>

namespace foretime::cli {

/// Describes how much of an objective one parameter explains by itself.
struct Importance {
  std::string parameter{};
  /// ε² (Kelley 1935): the share of the variance of the objective's ranks between trials with different values,
  /// minus the share expected by chance; 0 to 1. Numbers with more than eight values, or with more values than half of
  /// the trials, are binned at their quantiles.
  double share = 0;
  std::optional<double> rank_correlation{};  // Spearman's, for numbers: below 0 if larger values lower the objective
  int64_t trials = 0;                        // trials that have a value of the parameter
};

/// Returns the importance of a parameter with value `values[i]` in trial i, empty if it has none. `objectives[i]`, the
/// trial's result, is finite. Returns nullopt if trials are too few, or all values or all objectives are equal.
std::optional<Importance> importance_of(const std::string& parameter,
                                        const std::vector<std::optional<std::string>>& values,
                                        const std::vector<double>& objectives);

}  // namespace foretime::cli
