#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

/// XGBoost's C interface as objects: handles are released, and errors are ModelError with XGBoost's text.
namespace foretime::models {

/// Holds parameters under XGBoost's names. Equal settings, data and numbers of threads give equal trees; with
/// subsampling of rows, another number of threads gives other trees.
struct BoosterSettings {
  std::string objective = "reg:squarederror";  // or rank:pairwise; unused with a custom gradient
  std::string tree_method = "hist";            // or exact
  int64_t max_depth = 6;
  double eta = 0.1;
  double gamma = 0.0;
  double min_child_weight = 1.0;
  double subsample = 1.0;
  double colsample_bytree = 1.0;
  double base_score = 0.0;
  int64_t seed = 43;
  int64_t threads = 1;
};

/// Holds a copy of dense rows of features, with labels, margins and groups. NaN means a missing feature.
class BoosterMatrix {
 public:
  /// `features` is row-major, [rows, columns], with at least one row; `threads` threads copy it.
  BoosterMatrix(std::span<const float> features, int64_t columns, int64_t threads = 1);

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  void set_labels(std::span<const float> labels);    // [rows] values to be learned
  void set_margins(std::span<const float> margins);  // [rows] initial predictions, instead of base_score
  void set_groups(
      const std::vector<uint32_t>& rows_of_groups);  // rank:pairwise: number of rows of each group, in order
  void* handle() const { return handle_.get(); }     // XGBoost's DMatrixHandle

 private:
  struct Free {
    void operator()(void* handle) const;
  };
  void set_floats(const char* field, std::span<const float> values);

  int64_t rows_ = 0, columns_ = 0;
  std::unique_ptr<void, Free> handle_;
};

/// Holds a growing ensemble of regression trees.
class Booster {
 public:
  /// `training` is the matrix that all calls of `update` and `boost` must use: the booster caches predictions for it.
  Booster(const BoosterSettings& settings, const BoosterMatrix& training);

  /// Adds one round of trees for the objective of the settings. `round` counts from 0.
  void update(const BoosterMatrix& training, int64_t round);
  /// Adds one round of trees for a loss with these first and second derivatives by each row's prediction, [rows] each.
  void boost(const BoosterMatrix& training, std::span<const float> gradient, std::span<const float> hessian);
  /// Returns the predictions of the first `rounds` rounds (0: of all rounds) before the objective's transform, [rows].
  std::vector<float> predict(const BoosterMatrix& matrix, int64_t rounds = 0) const;

  /// Returns the number of rounds that were added.
  int64_t rounds() const;

 private:
  struct Free {
    void operator()(void* handle) const;
  };
  std::unique_ptr<void, Free> handle_;
};

}  // namespace foretime::models
