#pragma once

#include <cmath>

#include "configs/settings.h"

namespace foretime::inference {

/// Converts scores to run times. A model predicts (y - mean) / deviation, where y is a target of training (loss.target,
/// loss.target_scale, loss.standardize_target):
///   runtime               y = runtime * scale
///   log_runtime           y = log(runtime)
///   log_runtime_per_flop  y = log(runtime / flop)
/// A lower score means a shorter run time, for equal numbers of operations.
struct Targets {
  using Kind = configs::LossTarget;
  Kind kind = Kind::runtime;
  double scale = 1.0, mean = 0.0, deviation = 1.0;  // numbers of the formulas above

  /// Returns the run time for a score in the unit of the training data; only log_runtime_per_flop reads `flop`.
  double to_runtime(double score, double flop) const {
    const double value = score * deviation + mean;
    if (kind == Kind::runtime) return value / scale;
    return kind == Kind::log_runtime ? std::exp(value) : std::exp(value) * flop;
  }
};

}  // namespace foretime::inference
