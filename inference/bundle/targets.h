#pragma once

#include <cmath>

#include "configs/settings.h"

namespace foretime::inference {

/// Converts predictions to run times: loss.target, loss.target_scale, loss.standardize_target.
///   runtime               y = runtime * scale
///   log_runtime           y = log(runtime)
///   log_runtime_per_flop  y = log(runtime / flop)
/// Models predict (y - mean) / deviation. It increases with the run time, so a lower prediction means faster (for equal
/// numbers of operations).
struct Targets {
  using Kind = configs::LossTarget;
  Kind kind = Kind::runtime;
  double scale = 1.0, mean = 0.0, deviation = 1.0;

  /// Converts a score to a run time in the unit of the training data; `flop` is used for log_runtime_per_flop only.
  double to_runtime(double score, double flop) const {
    const double value = score * deviation + mean;
    if (kind == Kind::runtime) return value / scale;
    return kind == Kind::log_runtime ? std::exp(value) : std::exp(value) * flop;
  }
};

}  // namespace foretime::inference
