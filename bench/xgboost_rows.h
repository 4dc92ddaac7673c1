#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "models/baselines/program_rows.h"
#include "models/baselines/record_rows.h"

/// Reads the rows that the XGBoost baseline learns from, and measures how its scores rank programs.
namespace foretime::models {

/// Reads AutoTVM's loop features (features, row_splits, id), one row a program, with the run times of program files
/// that hold the same ids (C1.npz …, named after their workload). Shorter rows are padded with zeros, as in AutoTVM.
ProgramRows read_loop_rows(const std::filesystem::path& features, const std::vector<std::filesystem::path>& programs);

/// Holds the records that an experiment trains on and tests on.
struct RecordSplit {
  RecordLines train, test;
};

/// Reads {"train_lines": {workload key: [lines]}, "eval_lines": {...}}. Throws DataError if a member is missing or a
/// line is in both.
RecordSplit read_record_split(const std::filesystem::path& file);

/// Returns the programs of these lines, in the order of `rows`.
ProgramRows rows_of_lines(const RecordRows& rows, const RecordLines& lines);

/// Holds the programs of an experiment: 80 % of the `given` workloads are for training, of which the first `share` is
/// used, and 20 % for validation. Programs of all other workloads are the test. The order is a shuffle by `seed`, so
/// that a smaller share is a subset of a larger one.
struct WorkloadSplit {
  std::vector<int64_t> training, validation, test;
};
WorkloadSplit split_workloads(const ProgramRows& rows, const std::vector<std::string>& given, double share,
                              uint64_t seed);

/// Holds means of ranking metrics (metrics.h) over workloads with at least two programs.
struct RankingReport {
  int64_t workloads = 0, programs = 0;
  double pairwise_accuracy = 0.0, kendall_tau = 0.0, top1_score = 0.0, top5_score = 0.0;
};

/// Holds the metrics of one workload.
struct WorkloadRanking {
  std::string workload;
  RankingReport report;
};

/// Evaluates `predicted` [programs], where lower means faster. Means leave out workloads for which a metric is
/// undefined.
RankingReport rank_programs(const ProgramRows& rows, std::span<const double> predicted);
/// Evaluates `predicted` for each workload separately.
std::vector<WorkloadRanking> rank_by_workload(const ProgramRows& rows, std::span<const double> predicted);

}  // namespace foretime::models
