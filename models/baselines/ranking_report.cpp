#include "models/baselines/ranking_report.h"

#include <cmath>

#include "models/metrics/metrics.h"

namespace foretime::models {

std::vector<WorkloadRanking> rank_by_workload(const ProgramRows& rows, std::span<const double> predicted) {
  std::vector<std::vector<double>> scores(rows.workload_names.size()), runtimes(rows.workload_names.size());
  for (size_t p = 0; p < predicted.size(); ++p) {
    scores[static_cast<size_t>(rows.workload[p])].push_back(predicted[p]);
    runtimes[static_cast<size_t>(rows.workload[p])].push_back(rows.runtimes[p]);
  }
  std::vector<WorkloadRanking> rankings;
  for (size_t w = 0; w < scores.size(); ++w) {
    if (scores[w].size() < 2) continue;
    RankingReport report;
    report.workloads = 1;
    report.programs = static_cast<int64_t>(scores[w].size());
    report.pairwise_accuracy = pairwise_accuracy(scores[w], runtimes[w]);
    report.kendall_tau = kendall_tau(scores[w], runtimes[w]);
    report.top1_score = top_k_score(scores[w], runtimes[w], 1);
    report.top5_score = top_k_score(scores[w], runtimes[w], 5);
    rankings.push_back({rows.workload_names[w], report});
  }
  return rankings;
}

RankingReport rank_programs(const ProgramRows& rows, std::span<const double> predicted) {
  RankingReport report;
  const auto rankings = rank_by_workload(rows, predicted);
  const auto mean = [&](double RankingReport::*metric) {
    double sum = 0.0;
    int64_t count = 0;
    for (const auto& ranking : rankings) {
      if (std::isnan(ranking.report.*metric)) continue;
      sum += ranking.report.*metric;
      ++count;
    }
    return count > 0 ? sum / static_cast<double>(count) : std::nan("");
  };
  report.workloads = static_cast<int64_t>(rankings.size());
  for (const auto& ranking : rankings) report.programs += ranking.report.programs;
  report.pairwise_accuracy = mean(&RankingReport::pairwise_accuracy);
  report.kendall_tau = mean(&RankingReport::kendall_tau);
  report.top1_score = mean(&RankingReport::top1_score);
  report.top5_score = mean(&RankingReport::top5_score);
  return report;
}

}  // namespace foretime::models
