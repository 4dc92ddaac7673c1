#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

/// XGBoost's C interface as objects: handles are released, errors are ModelError with XGBoost's own words.
namespace foretime::models {

/// Parameters by XGBoost's own names. The same settings, data and number of threads give the same trees; another number
/// of threads gives others where rows are subsampled.
struct BoosterSettings {
  std::string objective = "reg:squarederror";  // or rank:pairwise; a custom gradient ignores it
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

/// Dense rows of features with what goes with each row; XGBoost's own copy. NaN stands for a missing feature.
class BoosterMatrix {
 public:
  BoosterMatrix(std::span<const float> features, int64_t columns, int64_t threads = 1);

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  void set_labels(std::span<const float> labels);                // [rows]
  void set_margins(std::span<const float> margins);              // [rows] what predictions start from, not base_score
  void set_groups(const std::vector<uint32_t>& rows_of_groups);  // rank:pairwise: sizes of runs of rows
  void* handle() const { return handle_.get(); }

 private:
  struct Free {
    void operator()(void* handle) const;
  };
  void set_floats(const char* field, std::span<const float> values);

  int64_t rows_ = 0, columns_ = 0;
  std::unique_ptr<void, Free> handle_;
};

/// A growing ensemble of regression trees.
class Booster {
 public:
  /// `training` is the matrix that the calls of `update` and `boost` will get: its predictions are kept up to date.
  Booster(const BoosterSettings& settings, const BoosterMatrix& training);
  /// Throws ModelError where the file is none that XGBoost wrote.
  explicit Booster(const std::filesystem::path& file);

  /// Adds one round of trees for the objective of the settings.
  void update(const BoosterMatrix& training, int64_t round);
  /// Adds one round of trees for the loss whose derivatives by each row's prediction these are, [rows] each.
  void boost(const BoosterMatrix& training, std::span<const float> gradient, std::span<const float> hessian);
  /// [rows] untransformed predictions of the first `rounds` rounds, all of them where it is 0.
  std::vector<float> predict(const BoosterMatrix& matrix, int64_t rounds = 0) const;

  int64_t rounds() const;
  /// A note that is saved with the trees; "" where there is none of that name.
  void set_note(const std::string& name, const std::string& text);
  std::string note(const std::string& name) const;
  /// As .json or, smaller, .ubj: by the file's extension.
  void save(const std::filesystem::path& file) const;

 private:
  struct Free {
    void operator()(void* handle) const;
  };
  std::unique_ptr<void, Free> handle_;
};

}  // namespace foretime::models
