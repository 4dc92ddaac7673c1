#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

namespace foretime::coordinator {

/// Follows one metric over evaluations: the best step, and whether to stop. Its state is saved in checkpoints.
class EarlyStop {
 public:
  EarlyStop(bool maximize, int64_t patience, double min_delta)
      : maximize_(maximize), patience_(patience), min_delta_(min_delta) {}

  /// Adds a value and returns whether it is the best so far. NaN is never an improvement.
  bool observe(int64_t step, double value) {
    const double gain = !best_ ? std::numeric_limits<double>::infinity() : maximize_ ? value - *best_ : *best_ - value;
    if (!std::isnan(value) && gain > min_delta_) {
      best_ = value;
      best_step_ = step;
      waited_ = 0;
      return true;
    }
    ++waited_;
    return false;
  }
  bool should_stop() const { return patience_ > 0 && waited_ >= patience_; }

  std::optional<double> best() const { return best_; }
  int64_t best_step() const { return best_step_; }
  int64_t waited() const { return waited_; }
  void restore(std::optional<double> best, int64_t best_step, int64_t waited) {
    best_ = best;
    best_step_ = best_step;
    waited_ = waited;
  }

 private:
  bool maximize_;
  int64_t patience_;
  double min_delta_;
  std::optional<double> best_;
  int64_t best_step_ = 0;
  int64_t waited_ = 0;
};

}  // namespace foretime::coordinator
