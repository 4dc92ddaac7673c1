#pragma once

#include <cstdint>
#include <vector>

#include "models/baselines/booster.h"
#include "models/baselines/program_rows.h"

namespace foretime::models {

/// What a regression is fitted to; both are logarithms.
enum class RuntimeTarget { milliseconds, nanoseconds_per_flop };

struct RuntimeSettings {
  RuntimeTarget target = RuntimeTarget::milliseconds;
  BoosterSettings booster;
  int64_t rounds = 2000;  // at most
  int64_t patience = 50;  // rounds without a better validation error after which training ends; 0: never
};

/// Squared error of the logarithm of a run time, one row a program, with the number of rounds that is best on other
/// programs: the XGBoost baseline of S2's experiment.
class RuntimeModel {
 public:
  /// `validation` may be empty: then all rounds are kept.
  static RuntimeModel train(const ProgramRows& training, const ProgramRows& validation,
                            const RuntimeSettings& settings);

  /// [programs] seconds.
  std::vector<double> predict(const ProgramRows& rows) const;
  int64_t rounds() const { return rounds_; }

 private:
  RuntimeModel(Booster booster, RuntimeTarget target) : booster_(std::move(booster)), target_(target) {}

  Booster booster_;
  RuntimeTarget target_;
  int64_t rounds_ = 0;
};

/// The programs of S2's protocol: `given` workloads are divided into training and validation (80/20), of the training
/// part the first `share` is used; the programs of all other workloads are the test. The order is a shuffle by `seed`,
/// so that a smaller share is part of a larger one.
struct WorkloadSplit {
  std::vector<int64_t> training, validation, test;
};
WorkloadSplit split_workloads(const ProgramRows& rows, const std::vector<std::string>& given, double share,
                              uint64_t seed);

}  // namespace foretime::models
