#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/baselines/booster.h"
#include "models/baselines/program_rows.h"

namespace foretime::models {

/// Names the losses of trees that predict normalised throughputs (1 is the best program of a workload).
enum class ThroughputLoss {
  sum_squares,   // TVM's: a program's score is the sum over its statements' rows; squared error
  sum_pairs,     // the same scores; logistic loss of each pair in a workload, times the difference of their throughputs
  rows_squared,  // XGBoost's reg:squarederror over aggregated rows, one a program
  rows_ranked,   // XGBoost's rank:pairwise over aggregated rows, groups are workloads
};

struct ThroughputSettings {
  ThroughputLoss loss = ThroughputLoss::sum_squares;
  BoosterSettings booster;
  int64_t rounds = 300;   // number of boosting rounds
  bool weighted = false;  // sum_squares: weigh each program by its throughput, as TVM does
  double margin = 0.0;    // sum_squares, sum_pairs: prediction of each statement before the first tree
};

/// Returns the settings of a named baseline:
///   tvm      XGBModel of TVM v0.14 as shipped, with histograms (300 rounds; it stops by its own training error)
///   squares  the same loss, tuned by cross-validation inside the training networks of TenSet
///   pairs    sum_pairs, tuned likewise
///   regression, ranking   rows_squared and rows_ranked, tuned likewise
/// Throws ModelError for another name.
ThroughputSettings throughput_preset(const std::string& name);
/// Returns the names and settings of all baselines that throughput_preset knows.
const std::vector<std::pair<std::string, ThroughputSettings>>& throughput_presets();

/// Holds the first and second derivatives of a loss by each program's score, [programs] each.
struct ScoreGradient {
  std::vector<double> first, second;
};

/// Returns the derivatives of ½ w (score − y)² for throughputs y, where w = y if weighted, else 1 (T. Chen et al.,
/// "Learning to Optimize Tensor Programs", 2018; TVM's pack_sum_square_error).
ScoreGradient squares_gradient(std::span<const double> scores, std::span<const double> throughputs, bool weighted);

/// Returns the derivatives of Σ over pairs of a workload with y_i > y_j of (y_i − y_j) log(1 + exp(s_j − s_i)), divided
/// by the workload's number of programs n, for scores s and throughputs y, in O(n²) time. `workloads` [programs] holds
/// the number of each program's workload.
ScoreGradient pairs_gradient(std::span<const double> scores, std::span<const double> throughputs,
                             std::span<const int32_t> workloads);

/// Scores programs by boosted trees: higher is faster, within one workload.
class ThroughputModel {
 public:
  /// Trains a model on all programs. Throws ModelError if there are none, or if XGBoost fails.
  static ThroughputModel train(const ProgramRows& rows, const ThroughputSettings& settings);

  /// Returns the scores, [programs]. Throws ModelError if `rows` has another number of columns than in training.
  std::vector<double> predict(const ProgramRows& rows) const;

 private:
  ThroughputModel(Booster booster, const ThroughputSettings& settings, int64_t columns)
      : booster_(std::move(booster)), settings_(settings), columns_(columns) {}

  Booster booster_;
  ThroughputSettings settings_;
  int64_t columns_ = 0;  // number of columns before aggregation
};

}  // namespace foretime::models
