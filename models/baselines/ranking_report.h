#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "models/baselines/program_rows.h"

namespace foretime::models {

/// How well scores rank the programs of each workload: metrics.h, mean over workloads with two programs or more.
struct RankingReport {
  int64_t workloads = 0, programs = 0;
  double pairwise_accuracy = 0.0, kendall_tau = 0.0, top1_score = 0.0, top5_score = 0.0;
};

/// One workload, by its name.
struct WorkloadRanking {
  std::string workload;
  RankingReport report;
};

/// `predicted` [programs]: lower means faster. A metric that is not defined for a workload is left out of its mean.
RankingReport rank_programs(const ProgramRows& rows, std::span<const double> predicted);
std::vector<WorkloadRanking> rank_by_workload(const ProgramRows& rows, std::span<const double> predicted);

}  // namespace foretime::models
