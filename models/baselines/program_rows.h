#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace foretime::models {

/// Programs with hand-made features: one row for each innermost statement of a program (auto_scheduler), or one row for
/// all of it (AutoTVM).
struct ProgramRows {
  int64_t columns = 0;
  std::vector<float> features;         // [rows, columns]
  std::vector<int64_t> row_ptr = {0};  // [programs + 1] rows of program p are row_ptr[p] … row_ptr[p + 1] - 1
  std::vector<int32_t> workload;       // [programs] index into workload_names
  std::vector<double> runtimes;        // [programs] seconds; infinite: it failed
  std::vector<double> flops;           // [programs], or empty
  std::vector<std::string> workload_names;
  std::vector<std::string> ids;  // [programs] as the file names them, or empty

  int64_t programs() const { return static_cast<int64_t>(row_ptr.size()) - 1; }
  int64_t rows() const { return row_ptr.back(); }
  std::span<const float> rows_of(int64_t program) const;
};

/// Files of per-statement features, in either form that occurs:
/// - FORMATS.md, tenset/features_*.npz: features, row_splits, workload_index, workload_keys, cost, line;
/// - tir/ansor/features_per_store.npz: X, ptr, task, y, ids; workloads are named by their number, "task 7".
/// Programs have the ids of `ids`, or the numbers of `line`, where the file has them.
/// Throws DataError for missing members, shapes that do not fit together, and run times that are not above 0.
ProgramRows read_statement_rows(const std::filesystem::path& file);

/// AutoTVM's loop features, one row a program, with the run times of program files that hold the same ids (C1.npz …,
/// named after their workload): features, row_splits, id. Shorter rows are filled with zeros, as AutoTVM does.
ProgramRows read_loop_rows(const std::filesystem::path& features, const std::vector<std::filesystem::path>& programs);

/// The same without program files: rows and ids alone, with no workloads, run times and arithmetic.
ProgramRows read_loop_features(const std::filesystem::path& features);

/// Some of the programs, in this order; all workload names stay.
ProgramRows select(const ProgramRows& rows, const std::vector<int64_t>& programs);

/// Programs of the workloads for which `chosen` is true, in their order.
std::vector<int64_t> programs_of(const ProgramRows& rows, const std::vector<bool>& chosen);

/// One row a program: sum, maximum and mean of each column over its statements, and their number.
ProgramRows aggregated(const ProgramRows& rows);

/// [programs] best run time of the program's workload among these programs, over its own: 1 is the best.
std::vector<double> normalized_throughputs(const ProgramRows& rows);

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
