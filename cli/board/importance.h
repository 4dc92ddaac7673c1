#pragma once

#include <optional>
#include <string>
#include <vector>

namespace foretime::cli {

/// How much of an objective one parameter explains by itself.
struct Importance {
  std::string parameter{};
  /// ε² (Kelley 1935): the share of the variance of the objective's ranks that lies between trials of unequal values,
  /// less what chance alone would put there; 0 to 1. Numbers with more values than eight, or
  /// than half of the trials, are cut at their quantiles.
  double share = 0;
  std::optional<double> rank_correlation{};  // Spearman's, of numbers: below 0 where larger ones lower the objective
  int64_t trials = 0;                        // that it was computed from
};

/// `values[i]` is the parameter's value in trial i, empty where it has none; `objectives` are finite. Empty where
/// there are too few trials, or all have one value.
std::optional<Importance> importance_of(const std::string& parameter,
                                        const std::vector<std::optional<std::string>>& values,
                                        const std::vector<double>& objectives);

/// Places in ascending order, from 0; equal ones share the mean of theirs.
std::vector<double> ranks_of(const std::vector<double>& values);

}  // namespace foretime::cli
