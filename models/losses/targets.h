#pragma once

#include <cstdint>
#include <optional>

#include <torch/types.h>

#include "configs/settings.h"
#include "data/graphs/group.h"
#include "inference/bundle/targets.h"

namespace foretime::models {

/// Between run times and what a model is trained to predict, both ways.
struct TargetTransform : inference::Targets {
  /// As the settings say, with mean 0 and deviation 1.
  static TargetTransform from(const configs::LossSettings& settings);

  /// `runtime` in the unit of its group, `flop` ignored unless the target is per flop. Throws ModelError where a
  /// logarithm has no value: a run time or a flop count that is not positive.
  double to_target(double runtime, double flop) const;

  /// The targets of a group's candidates `ids`: [ids] float64. Throws ModelError, naming the group, as to_target does,
  /// and where flop counts are needed and unknown.
  torch::Tensor targets(const data::Group& group, const std::vector<int64_t>& ids) const;
};

/// Mean and deviation of the targets over training candidates. Ranks sum `sums()` before `fit`.
class TargetStatistics {
 public:
  explicit TargetStatistics(const TargetTransform& transform) : transform_(transform) {}
  void add(const data::Group& group, const std::vector<int64_t>& ids);
  /// [3] float64 on the CPU: count, sum, sum of squares. The caller may reduce it in place.
  torch::Tensor sums() { return sums_; }
  /// `transform` with mean and deviation; the deviation is 1 where all targets agree. Throws ModelError without any
  /// targets.
  TargetTransform fit() const;

 private:
  TargetTransform transform_;
  torch::Tensor sums_ = torch::zeros({3}, torch::kDouble);
};

}  // namespace foretime::models
