#pragma once

#include <cstdint>
#include <vector>

#include "models/baselines/booster.h"
#include "models/baselines/program_rows.h"

namespace foretime::models {

/// Names the targets of a regression, both logarithms.
enum class RuntimeTarget { milliseconds, nanoseconds_per_flop };

struct RuntimeSettings {
  RuntimeTarget target = RuntimeTarget::milliseconds;
  BoosterSettings booster;
  int64_t rounds = 2000;  // upper limit of rounds
  int64_t patience = 50;  // rounds without a better validation error after which training ends; 0: never
};

/// Predicts run times, one row a program, by trees with squared error of the logarithm. The number of rounds is the
/// best one on validation programs: an XGBoost baseline.
class RuntimeModel {
 public:
  /// Trains a model. Without validation programs all rounds are kept.
  static RuntimeModel train(const ProgramRows& training, const ProgramRows& validation,
                            const RuntimeSettings& settings);

  /// Returns the predicted run times in seconds, [programs].
  std::vector<double> predict(const ProgramRows& rows) const;
  int64_t rounds() const { return rounds_; }

 private:
  RuntimeModel(Booster booster, RuntimeTarget target) : booster_(std::move(booster)), target_(target) {}

  Booster booster_;
  RuntimeTarget target_;
  int64_t rounds_ = 0;
};

}  // namespace foretime::models
