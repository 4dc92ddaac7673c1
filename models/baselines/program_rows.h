#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace foretime::models {

/// Holds programs with hand-made features: one row for each innermost statement of a program (auto_scheduler), or one
/// row for the whole program (AutoTVM).
struct ProgramRows {
  int64_t columns = 0;
  std::vector<float> features;         // [rows, columns]
  std::vector<int64_t> row_ptr = {0};  // [programs + 1] rows of program p are row_ptr[p] … row_ptr[p + 1] - 1
  std::vector<int32_t> workload;       // [programs] index into workload_names
  std::vector<double> runtimes;        // [programs] seconds; infinite: the program failed
  std::vector<double> flops;           // [programs], or empty if unknown
  std::vector<std::string> workload_names;
  std::vector<std::string> ids;  // [programs] names in the file, or empty

  int64_t programs() const { return std::ssize(row_ptr) - 1; }
  int64_t rows() const { return row_ptr.back(); }
  /// Returns the features of a program, [its rows, columns].
  std::span<const float> rows_of(int64_t program) const;
};

/// Reads a file of per-statement features in either of two forms:
/// - tenset/features_*.npz: features, row_splits, workload_index, workload_keys, cost, line;
/// - tir/ansor/features_per_store.npz: X, ptr, task, y, ids; workloads are named by their number, "task 7".
/// Programs have the ids of `ids`, or the numbers of `line`, if the file has them. Throws DataError for missing
/// members, inconsistent shapes, and run times that are not above 0.
ProgramRows read_statement_rows(const std::filesystem::path& file);

/// Reads AutoTVM's loop features without program files: rows and ids, but no workloads, run times and flops.
ProgramRows read_loop_features(const std::filesystem::path& features);

/// Returns the given programs, in this order, with all workload names.
ProgramRows select(const ProgramRows& rows, const std::vector<int64_t>& programs);

/// Returns the programs whose workload is true in `chosen`, ascending.
std::vector<int64_t> programs_of(const ProgramRows& rows, const std::vector<bool>& chosen);

/// Returns one row a program: sum, maximum and mean of each column over its statements, and their number.
ProgramRows aggregated(const ProgramRows& rows);

/// Returns for each program the best run time of its workload divided by its own run time; 1 is the best. [programs]
std::vector<double> normalized_throughputs(const ProgramRows& rows);

}  // namespace foretime::models
