#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace foretime::models {

/// Holds programs with hand-made features: a row for each innermost statement (auto_scheduler) or program (AutoTVM).
struct ProgramRows {
  int64_t columns = 0;
  std::vector<float> features;         // [rows, columns]
  std::vector<int64_t> row_ptr = {0};  // [programs + 1] rows of program p are row_ptr[p] … row_ptr[p + 1] - 1
  std::vector<int32_t> workload;       // [programs] index into workload_names; empty if unknown
  std::vector<double> runtimes;        // [programs] seconds; infinite: the program failed; empty if unknown
  std::vector<double> flops;           // [programs] number of arithmetic operations; empty if unknown
  std::vector<std::string> workload_names;
  std::vector<std::string> ids;  // [programs] names in the file; empty if it has none

  int64_t programs() const { return std::ssize(row_ptr) - 1; }
  int64_t rows() const { return row_ptr.back(); }
  /// Returns the features of program number `program`, [rows of the program, columns].
  std::span<const float> rows_of(int64_t program) const;
};

/// Reads a file of per-statement features in either of two forms:
/// - tenset/features_*.npz: features, row_splits, workload_index, workload_keys, cost, line;
/// - tir/ansor/features_per_store.npz: X, ptr, task, y, ids; workloads are named by their number, "task 7".
/// ids come from the member ids, else from line (as text), and are empty without both. Throws DataError for missing
/// members, inconsistent shapes, programs without rows, unknown workloads, and run times not finite and above 0.
ProgramRows read_statement_rows(const std::filesystem::path& file);

/// Reads AutoTVM's loop features (members features, row_splits, id): ids, and one row for each program, padded with
/// zeros to the longest. Workloads, run times and flops stay empty. Throws DataError as read_statement_rows does.
ProgramRows read_loop_features(const std::filesystem::path& features);

/// Returns the programs numbered `programs`, in this order. `rows` must have workloads and run times.
ProgramRows select(const ProgramRows& rows, const std::vector<int64_t>& programs);

/// Returns the numbers of the programs whose workload is true in `chosen` [workload_names], ascending.
std::vector<int64_t> programs_of(const ProgramRows& rows, const std::vector<bool>& chosen);

/// Returns one row for each program: sums of all columns over the program's rows, then maxima, then means, then the
/// number of rows. `rows` must have workloads and run times.
ProgramRows aggregated(const ProgramRows& rows);

/// Returns for each program, [programs], the best run time of its workload divided by the run time of the program: 1
/// for the fastest, 0 for a failed one.
std::vector<double> normalized_throughputs(const ProgramRows& rows);

}  // namespace foretime::models
