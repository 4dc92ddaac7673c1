#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "models/gpu/sparse_kernels.h"
#include "models/sparse/plan_tensors.h"

/// Conversion of parts of message plans to tensors in an arena.
namespace foretime::models {

/// Throws BrokenInvariant with `what` (a part of a message plan), `found` and `expected` unless `condition` holds.
void expect_size(bool condition, const char* what, int64_t found, int64_t expected);

/// Computes upper bounds of the bytes that parts of a plan take in an arena.
struct PlanBytes {
  bool gradients;  // true if matrices are copied with their transposes

  /// Returns the bound of a matrix with at most this many rows, columns and entries.
  int64_t of_rows_and_entries(int64_t rows, int64_t entries) const {
    const int64_t long_rows = entries / gpu::kLongRow + 1, pieces = entries / gpu::kPiece + long_rows;
    const int64_t one_way = gpu::Arena::max_bytes<int64_t>(rows + 1) + gpu::Arena::max_bytes<int32_t>(entries) +
                            gpu::Arena::max_bytes<double>(entries) + 2 * gpu::Arena::max_bytes<int32_t>(long_rows + 1) +
                            gpu::Arena::max_bytes<int32_t>(pieces);
    return gradients ? 2 * one_way : one_way;
  }
  int64_t of(const plans::CsrMatrix& matrix) const {
    return of_rows_and_entries(std::max(matrix.rows, matrix.cols), matrix.columns.size());
  }
  /// Returns the bound of a matrix with one entry in each row.
  int64_t of_gather(size_t rows, int64_t cols) const {
    return of_rows_and_entries(std::max<int64_t>(rows, cols), rows);
  }
  int64_t of(const inference::StatementParts& parts) const {
    int64_t bytes = of_gather(parts.statements.size(), 0) + of_gather(parts.loops.size(), 0);
    for (const auto* each : {&parts.loops_of, &parts.innermost, &parts.second, &parts.statements_of})
      bytes += of(*each);
    for (const auto& access : parts.accesses) bytes += of(access);
    return bytes;
  }
};

/// Copies parts of plans into an arena, which must outlive the converter. Throws BrokenInvariant for arrays whose sizes
/// disagree, and ModelError for a matrix with 2^31 or more entries on a GPU.
class PlanConverter {
 public:
  PlanConverter(const PlanTensorOptions& options, gpu::Arena& arena) : options_(options), arena_(arena) {}

  /// Returns a copy of `values`, converted to `dtype`.
  template <class T>
  torch::Tensor copy(const std::vector<T>& values, torch::Dtype dtype) {
    return arena_.add(values, dtype);
  }
  /// Returns a row-major copy [rows, width] in the options' floating-point type; no rows if `width` is 0.
  template <class T>
  torch::Tensor copy_rows(const std::vector<T>& values, int64_t width) {
    return copy(values, options_.dtype).view({width == 0 ? 0 : std::ssize(values) / width, width});
  }

  /// Returns a matrix with its values. `positions` also sets CsrTensor::transposed_positions, if there are gradients.
  CsrTensor matrix(const plans::CsrMatrix& source, bool positions = false);
  /// Returns a matrix with the entries of `source`, whose values are replaced by 1.
  CsrTensor of_ones(const plans::CsrMatrix& source);
  /// Returns the matrix [indices, cols] with a single 1 in each row, at the row's index. Throws ModelError, naming
  /// `what`, for an index outside of [0, cols).
  CsrTensor gather(const std::vector<int32_t>& index, int64_t cols, const char* what);
  /// Returns the same matrix as gather(), but without transpose, for inputs without gradient; does not check indices.
  CsrTensor gather_constants(const std::vector<int32_t>& index, int64_t cols);

  /// Returns a level's inputs. The last arguments are the plan's numbers of these inputs. Throws as gather() does.
  std::shared_ptr<const LevelTensors> level(const plans::PlanLevel& source, int64_t nodes, int64_t layout_rows,
                                            int64_t candidates);
  /// Returns the matrices of a layer above a level of `below` states. Throws ModelError as gather() does.
  std::shared_ptr<const LayerTensors> layer(const plans::PlanLayer& source, int64_t below);
  std::shared_ptr<const StatementTensors> statements(const inference::StatementParts& parts);
  /// Returns a pool with its counts; without its last stage and the counts of that if options.candidate_rows is false.
  PoolTensors pool(const plans::PlanPool& source);

 private:
  torch::Dtype row_ptr_type() const { return row_ptr_type_on(options_.device); }
  /// Returns the entries of `source`, and those of its transpose `turned` if there are gradients, without values.
  CsrTensor pattern(const plans::CsrMatrix& source, const plans::CsrMatrix& turned);
  /// Returns the rows that a GPU reduces in pieces; undefined on the CPU or if there are none.
  LongRows long_rows(const std::vector<int64_t>& row_ptr);

  PlanTensorOptions options_;
  gpu::Arena& arena_;
};

/// Returns for each row the sum over its entries e of values[e] * factor[columns[e]]; an empty `factor` means ones.
std::vector<double> row_sums(const plans::CsrMatrix& matrix, const std::vector<double>& factor = {});

}  // namespace foretime::models
