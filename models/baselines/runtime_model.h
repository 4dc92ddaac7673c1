#pragma once

#include <cstdint>
#include <vector>

#include "models/baselines/booster.h"
#include "models/baselines/program_rows.h"

namespace foretime::models {

/// Names the unit of run times whose logarithm the trees predict. flop: arithmetic operation (ProgramRows::flops).
enum class RuntimeTarget { milliseconds, nanoseconds_per_flop };

struct RuntimeSettings {
  RuntimeTarget target = RuntimeTarget::milliseconds;
  BoosterSettings booster;
  int64_t rounds = 2000;  // upper limit of rounds
  int64_t patience = 50;  // rounds without a better validation error after which training ends; 0: never
};

/// Predicts run times by boosted trees with squared error of the logarithm, an XGBoost baseline. Throws ModelError
/// unless programs have one row each, and flops for nanoseconds_per_flop.
class RuntimeModel {
 public:
  /// Trains a model. Keeps as many rounds, a multiple of 10, as give the least squared error on the programs of
  /// `validation`; all rounds without such programs, or if there are fewer than 10 rounds.
  static RuntimeModel train(const ProgramRows& training, const ProgramRows& validation,
                            const RuntimeSettings& settings);

  /// Returns the predicted run times in seconds, [programs].
  std::vector<double> predict(const ProgramRows& rows) const;
  /// Returns the number of rounds that predict() uses.
  int64_t rounds() const { return rounds_; }

 private:
  RuntimeModel(Booster booster, RuntimeTarget target) : booster_(std::move(booster)), target_(target) {}

  Booster booster_;
  RuntimeTarget target_;
  int64_t rounds_ = 0;  // see rounds()
};

}  // namespace foretime::models
