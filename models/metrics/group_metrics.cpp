#include "models/metrics/group_metrics.h"

#include <vector>

#include <fmt/format.h>

#include "models/metrics/metrics.h"

namespace foretime::models {

std::map<std::string, double> ranking_metrics(std::span<const double> scores, std::span<const double> runtimes,
                                              data::CandidateKind kind) {
  std::map<std::string, double> metrics = {{"kendall_tau", kendall_tau(scores, runtimes)},
                                           {"opa", ordered_pair_accuracy(scores, runtimes)},
                                           {"pairwise_accuracy", pairwise_accuracy(scores, runtimes)}};
  for (const int k : {1, 5, 10, 100}) metrics[fmt::format("top{}_slowdown", k)] = top_k_slowdown(scores, runtimes, k);
  for (const int k : {1, 5}) metrics[fmt::format("top{}_score", k)] = top_k_score(scores, runtimes, k);
  if (kind == data::CandidateKind::layout) metrics["contest_score"] = metrics["kendall_tau"];
  if (kind == data::CandidateKind::tile) metrics["contest_score"] = 1 - metrics["top5_slowdown"];
  return metrics;
}

std::map<std::string, double> ranking_metrics(const Scores& scores, std::span<const double> runtimes,
                                              data::CandidateKind kind) {
  auto metrics = ranking_metrics(std::span(scores.scores), runtimes, kind);
  if (scores.levels.empty()) return metrics;
  const std::vector<double> levels(scores.levels.begin(), scores.levels.end());
  metrics["kendall_tau_of_scores"] = metrics["kendall_tau"];
  metrics["kendall_tau"] = kendall_tau(levels, runtimes);
  return metrics;
}

std::map<std::string, double> regression_metrics(std::span<const double> predicted, std::span<const double> measured) {
  return {{"mae", mean_absolute_error(predicted, measured)},
          {"rmse", root_mean_squared_error(predicted, measured)},
          {"mape", mean_absolute_percentage_error(predicted, measured)},
          {"r_squared", r_squared(predicted, measured)}};
}

}  // namespace foretime::models
