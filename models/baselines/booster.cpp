#include "models/baselines/booster.h"

#include <limits>
#include <utility>

#include <fmt/format.h>
#include <xgboost/c_api.h>

#include "models/graph/error.h"

namespace foretime::models {
namespace {

void check(int status, const char* call) {
  if (status != 0) throw ModelError("XGBoost: {}: {}", call, XGBGetLastError());
}

void check_length(const char* what, size_t found, int64_t rows) {
  if (std::cmp_not_equal(found, rows))
    throw ModelError("XGBoost: {} values of {} for {} rows, expected one for each row", found, what, rows);
}

}  // namespace

void BoosterMatrix::Free::operator()(void* handle) const { XGDMatrixFree(handle); }
void Booster::Free::operator()(void* handle) const { XGBoosterFree(handle); }

BoosterMatrix::BoosterMatrix(std::span<const float> features, int64_t columns, int64_t threads) : columns_(columns) {
  if (columns < 1 || features.empty() || features.size() % static_cast<size_t>(columns) != 0)
    throw ModelError("XGBoost: {} feature values in rows of {} columns, expected one or more complete rows",
                     features.size(), columns);
  rows_ = std::ssize(features) / columns;
  DMatrixHandle handle = nullptr;
  check(XGDMatrixCreateFromMat_omp(features.data(), rows_, columns, std::numeric_limits<float>::quiet_NaN(), &handle,
                                   threads),
        "making a matrix");
  handle_.reset(handle);
}

void BoosterMatrix::set_floats(const char* field, std::span<const float> values) {
  check_length(field, values.size(), rows_);
  check(XGDMatrixSetFloatInfo(handle(), field, values.data(), values.size()), field);
}

void BoosterMatrix::set_labels(std::span<const float> labels) { set_floats("label", labels); }
void BoosterMatrix::set_margins(std::span<const float> margins) { set_floats("base_margin", margins); }

void BoosterMatrix::set_groups(const std::vector<uint32_t>& rows_of_groups) {
  check(XGDMatrixSetUIntInfo(handle(), "group", rows_of_groups.data(), rows_of_groups.size()), "setting groups");
}

Booster::Booster(const BoosterSettings& settings, const BoosterMatrix& training) {
  const DMatrixHandle matrices[] = {training.handle()};
  BoosterHandle handle = nullptr;
  check(XGBoosterCreate(matrices, 1, &handle), "making a booster");
  handle_.reset(handle);
  const auto set = [&](const char* name, const auto& value) {
    check(XGBoosterSetParam(handle_.get(), name, fmt::format("{}", value).c_str()), name);
  };
  set("verbosity", 0);
  set("booster", "gbtree");
  set("objective", settings.objective);
  set("tree_method", settings.tree_method);
  set("max_depth", settings.max_depth);
  set("eta", settings.eta);
  set("gamma", settings.gamma);
  set("min_child_weight", settings.min_child_weight);
  set("subsample", settings.subsample);
  set("colsample_bytree", settings.colsample_bytree);
  set("base_score", settings.base_score);
  set("seed", settings.seed);
  set("nthread", settings.threads);
}

void Booster::update(const BoosterMatrix& training, int64_t round) {
  check(XGBoosterUpdateOneIter(handle_.get(), round, training.handle()), "a round of trees");
}

void Booster::boost(const BoosterMatrix& training, std::span<const float> gradient, std::span<const float> hessian) {
  check_length("gradients", gradient.size(), training.rows());
  check_length("second derivatives", hessian.size(), training.rows());
  // The interface takes pointers to mutable floats and writes to neither.
  check(XGBoosterBoostOneIter(handle_.get(), training.handle(), const_cast<float*>(gradient.data()),
                              const_cast<float*>(hessian.data()), gradient.size()),
        "a round of trees");
}

std::vector<float> Booster::predict(const BoosterMatrix& matrix, int64_t rounds) const {
  constexpr int kMargins = 1;  // untransformed, and one number a row whatever the objective
  const std::string config = fmt::format(
      R"({{"type": {}, "training": false, "iteration_begin": 0, "iteration_end": {}, "strict_shape": false}})",
      kMargins, rounds);
  const bst_ulong* shape = nullptr;
  bst_ulong dimensions = 0;
  const float* values = nullptr;
  check(XGBoosterPredictFromDMatrix(handle_.get(), matrix.handle(), config.c_str(), &shape, &dimensions, &values),
        "predicting");
  return {values, values + matrix.rows()};
}

int64_t Booster::rounds() const {
  int rounds = 0;
  check(XGBoosterBoostedRounds(handle_.get(), &rounds), "counting rounds");
  return rounds;
}

}  // namespace foretime::models
