#include "models/baselines/runtime_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "models/graph/error.h"

namespace foretime::models {
namespace {

constexpr int64_t kCheckInterval = 10;  // rounds between two looks at the validation error

/// Seconds in the unit of the target, whose logarithm is fitted.
double unit_of(const ProgramRows& rows, RuntimeTarget target, size_t program) {
  return target == RuntimeTarget::milliseconds ? 1e-3 : 1e-9 * rows.flops[program];
}

std::vector<float> labels_of(const ProgramRows& rows, RuntimeTarget target) {
  std::vector<float> labels(rows.runtimes.size());
  for (size_t p = 0; p < labels.size(); ++p) labels[p] = std::log(rows.runtimes[p] / unit_of(rows, target, p));
  return labels;
}

double squared_error(const std::vector<float>& predicted, const std::vector<float>& labels) {
  double sum = 0.0;
  for (size_t p = 0; p < labels.size(); ++p) {
    const double error = static_cast<double>(predicted[p]) - labels[p];
    sum += error * error;
  }
  return sum;
}

void check_rows(const ProgramRows& rows, RuntimeTarget target) {
  if (rows.rows() != rows.programs())
    throw ModelError("XGBoost: {} rows of features of {} programs, expected one row for each program", rows.rows(),
                     rows.programs());
  if (target == RuntimeTarget::nanoseconds_per_flop && rows.flops.empty())
    throw ModelError(
        "XGBoost: the target time per flop needs counts of arithmetic operations, which the data do not have; "
        "choose run time as the target");
}

}  // namespace

RuntimeModel RuntimeModel::train(const ProgramRows& training, const ProgramRows& validation,
                                 const RuntimeSettings& settings) {
  check_rows(training, settings.target);
  const auto labels = labels_of(training, settings.target);
  BoosterMatrix matrix(training.features, training.columns, settings.booster.threads);
  matrix.set_labels(labels);
  BoosterSettings booster = settings.booster;
  booster.base_score = std::accumulate(labels.begin(), labels.end(), 0.0) / std::max<size_t>(1, labels.size());
  RuntimeModel model(Booster(booster, matrix), settings.target);
  std::optional<BoosterMatrix> held_out;
  std::vector<float> held_labels;
  if (validation.programs() > 0) {
    check_rows(validation, settings.target);
    held_out.emplace(validation.features, validation.columns);
    held_labels = labels_of(validation, settings.target);
  }
  double best = std::numeric_limits<double>::infinity();
  for (int64_t round = 0; round < settings.rounds; ++round) {
    model.booster_.update(matrix, round);
    if (!held_out || (round + 1) % kCheckInterval != 0) continue;
    const double error = squared_error(model.booster_.predict(*held_out), held_labels);
    if (error < best) {
      best = error;
      model.rounds_ = round + 1;
    } else if (settings.patience > 0 && round + 1 - model.rounds_ >= settings.patience) {
      break;
    }
  }
  if (model.rounds_ == 0) model.rounds_ = model.booster_.rounds();
  return model;
}

std::vector<double> RuntimeModel::predict(const ProgramRows& rows) const {
  check_rows(rows, target_);
  if (rows.programs() == 0) return {};
  const auto logs = booster_.predict(BoosterMatrix(rows.features, rows.columns), rounds_);
  std::vector<double> seconds(logs.size());
  for (size_t p = 0; p < logs.size(); ++p) seconds[p] = std::exp(logs[p]) * unit_of(rows, target_, p);
  return seconds;
}

}  // namespace foretime::models
