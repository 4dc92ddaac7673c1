#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

namespace foretime::coordinator {

/// Follows one metric over evaluations: the best value and its step, and whether training should stop.
class EarlyStop {
 public:
  /// A value becomes the best if it is the first, or better than the best so far by more than `min_delta`. Training
  /// should stop after `patience` evaluations in succession without a new best value; 0: never.
  EarlyStop(bool maximize, int64_t patience, double min_delta)
      : maximize_(maximize), patience_(patience), min_delta_(min_delta) {}

  /// Adds the value of the evaluation at `step`. Returns whether it became the best; NaN never does.
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
  int64_t best_step() const { return best_step_; }  // 0: no value was the best yet
  int64_t waited() const { return waited_; }        // number of evaluations since the best one
  /// Sets the state that best(), best_step() and waited() had when a checkpoint was written.
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
