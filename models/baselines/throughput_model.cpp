#include "models/baselines/throughput_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "base/index_range.h"
#include "models/graph/error.h"

namespace foretime::models {
namespace {

bool sums_rows(ThroughputLoss loss) { return loss == ThroughputLoss::sum_squares || loss == ThroughputLoss::sum_pairs; }

/// Programs by workload.
std::vector<std::vector<size_t>> by_workload(std::span<const int32_t> workloads) {
  std::vector<std::vector<size_t>> members;
  for (size_t p = 0; p < workloads.size(); ++p) {
    const size_t w = workloads[p];
    if (w >= members.size()) members.resize(w + 1);
    members[w].push_back(p);
  }
  return members;
}

std::vector<double> sums(const ProgramRows& rows, std::span<const float> predictions) {
  std::vector<double> scores(rows.programs(), 0.0);
  for (size_t p = 0; p < scores.size(); ++p)
    for (const int64_t r : entries_of(rows.row_ptr, p)) scores[p] += predictions[r];
  return scores;
}

/// One value a program, given to each of its rows.
std::vector<float> spread(const ProgramRows& rows, std::span<const double> values) {
  std::vector<float> out(rows.rows());
  for (size_t p = 0; p < values.size(); ++p)
    for (const int64_t r : entries_of(rows.row_ptr, p)) out[r] = values[p];
  return out;
}

Booster train_sums(const ProgramRows& rows, const ThroughputSettings& settings) {
  BoosterMatrix matrix(rows.features, rows.columns, settings.booster.threads);
  matrix.set_margins(std::vector<float>(matrix.rows(), settings.margin));
  const auto throughputs = normalized_throughputs(rows);
  Booster booster(settings.booster, matrix);
  for (int64_t round = 0; round < settings.rounds; ++round) {
    const auto scores = sums(rows, booster.predict(matrix));
    const auto gradient = settings.loss == ThroughputLoss::sum_squares
                              ? squares_gradient(scores, throughputs, settings.weighted)
                              : pairs_gradient(scores, throughputs, rows.workload);
    booster.boost(matrix, spread(rows, gradient.first), spread(rows, gradient.second));
  }
  return booster;
}

Booster train_rows(const ProgramRows& rows, const ThroughputSettings& settings) {
  // XGBoost wants the rows of a group side by side.
  std::vector<int64_t> order;
  std::vector<uint32_t> sizes;
  for (const auto& members : by_workload(rows.workload)) {
    order.insert(order.end(), members.begin(), members.end());
    if (!members.empty()) sizes.push_back(members.size());
  }
  const ProgramRows grouped = aggregated(select(rows, order));
  BoosterMatrix matrix(grouped.features, grouped.columns, settings.booster.threads);
  matrix.set_labels(spread(grouped, normalized_throughputs(grouped)));
  if (settings.loss == ThroughputLoss::rows_ranked) matrix.set_groups(sizes);
  Booster booster(settings.booster, matrix);
  for (int64_t round = 0; round < settings.rounds; ++round) booster.update(matrix, round);
  return booster;
}

}  // namespace

const std::vector<std::pair<std::string, ThroughputSettings>>& throughput_presets() {
  using Loss = ThroughputLoss;
  static const std::vector<std::pair<std::string, ThroughputSettings>> presets = {
      {"tvm",
       {.booster = {.max_depth = 10, .eta = 0.2, .gamma = 0.001, .min_child_weight = 0.0},
        .rounds = 300,
        .weighted = true,
        .margin = 0.5}},
      {"squares", {.booster = {.min_child_weight = 0.0}, .rounds = 450, .weighted = true}},
      {"pairs",
       {.loss = Loss::sum_pairs,
        .booster = {.max_depth = 7, .eta = 0.07, .min_child_weight = 0.02, .subsample = 0.9, .colsample_bytree = 0.7},
        .rounds = 500}},
      {"regression", {.loss = Loss::rows_squared, .booster = {.base_score = 0.5}, .rounds = 350}},
      {"ranking",
       {.loss = Loss::rows_ranked, .booster = {.objective = "rank:pairwise", .base_score = 0.5}, .rounds = 500}}};
  return presets;
}

ThroughputSettings throughput_preset(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& [known, settings] : throughput_presets()) {
    if (known == name) return settings;
    names.push_back(known);
  }
  throw ModelError("XGBoost: preset '{}', expected one of {}", name, fmt::join(names, ", "));
}

ScoreGradient squares_gradient(std::span<const double> scores, std::span<const double> throughputs, bool weighted) {
  ScoreGradient gradient{std::vector<double>(scores.size()), std::vector<double>(scores.size())};
  for (size_t p = 0; p < scores.size(); ++p) {
    const double weight = weighted ? throughputs[p] : 1.0;
    gradient.first[p] = weight * (scores[p] - throughputs[p]);
    gradient.second[p] = weight;
  }
  return gradient;
}

ScoreGradient pairs_gradient(std::span<const double> scores, std::span<const double> throughputs,
                             std::span<const int32_t> workloads) {
  ScoreGradient gradient{std::vector<double>(scores.size(), 0.0), std::vector<double>(scores.size(), 0.0)};
  std::vector<double> odds, y, first, second;
  for (const auto& members : by_workload(workloads)) {
    // The odds that a beats b are e^a / (e^a + e^b): one exponential a program, none a pair. A score that lies further
    // below the best than the floor counts as lying there, where no loss can tell the two apart.
    constexpr double kFloor = 300.0;
    const size_t count = members.size();
    double best = -std::numeric_limits<double>::infinity();
    for (const size_t p : members) best = std::max(best, scores[p]);
    odds.resize(count);
    y.resize(count);
    first.assign(count, 0.0);
    second.assign(count, 0.0);
    for (size_t a = 0; a < count; ++a) {
      odds[a] = std::exp(std::max(-kFloor, scores[members[a]] - best));
      y[a] = throughputs[members[a]];
    }
    for (size_t a = 0; a < count; ++a) {
      double first_sum = 0.0, second_sum = 0.0;
      for (size_t b = 0; b < a; ++b) {
        const double gap = y[a] - y[b], share = 1.0 / (odds[a] + odds[b]);
        const double wrong = (gap > 0.0 ? odds[b] : odds[a]) * share;  // odds that the pair is misplaced
        const double slope = gap * wrong, curve = std::abs(gap) * wrong * (1.0 - wrong);
        first_sum -= slope;
        second_sum += curve;
        first[b] += slope;
        second[b] += curve;
      }
      first[a] += first_sum;
      second[a] += second_sum;
    }
    for (size_t a = 0; a < count; ++a) {
      gradient.first[members[a]] = first[a] / count;
      gradient.second[members[a]] = second[a] / count;
    }
  }
  return gradient;
}

ThroughputModel ThroughputModel::train(const ProgramRows& rows, const ThroughputSettings& settings) {
  if (rows.programs() < 1) throw ModelError("XGBoost: no programs to train on, expected at least one");
  return {sums_rows(settings.loss) ? train_sums(rows, settings) : train_rows(rows, settings), settings, rows.columns};
}

std::vector<double> ThroughputModel::predict(const ProgramRows& rows) const {
  if (rows.columns != columns_)
    throw ModelError("XGBoost: rows of {} features, expected {} as in training", rows.columns, columns_);
  if (rows.programs() == 0) return {};
  if (!sums_rows(settings_.loss)) {
    const ProgramRows whole = aggregated(rows);
    return sums(whole, booster_.predict(BoosterMatrix(whole.features, whole.columns)));
  }
  BoosterMatrix matrix(rows.features, rows.columns);
  matrix.set_margins(std::vector<float>(matrix.rows(), settings_.margin));
  return sums(rows, booster_.predict(matrix));
}

}  // namespace foretime::models
