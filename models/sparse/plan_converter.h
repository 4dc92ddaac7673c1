#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "models/gpu/sparse_kernels.h"
#include "models/sparse/plan_tensors.h"

/// Conversion of parts of message plans to tensors in an arena.
namespace foretime::models {

/// Throws ModelError naming the part of a plan unless the condition holds.
void expect_size(bool condition, const char* what, int64_t found, int64_t expected);

/// Computes upper bounds of the bytes that parts of a plan take in an arena.
struct PlanBytes {
  bool gradients;

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

/// Copies parts of plans into an arena, as tensors with the layout of its device. The arena must outlive it.
class PlanConverter {
 public:
  PlanConverter(const PlanTensorOptions& options, gpu::Arena& arena) : options_(options), arena_(arena) {}

  template <class T>
  torch::Tensor copy(const std::vector<T>& values, torch::Dtype dtype) {
    return arena_.add(values, dtype);
  }
  template <class T>
  torch::Tensor copy_rows(const std::vector<T>& values, int64_t width) {
    return copy(values, options_.dtype).view({width == 0 ? 0 : std::ssize(values) / width, width});
  }

  CsrTensor matrix(const plans::CsrMatrix& source, bool positions = false);
  /// Returns a matrix with the entries of `source`, all of value 1.
  CsrTensor of_ones(const plans::CsrMatrix& source);
  /// Returns a matrix with one entry a row. Throws ModelError, naming `what`, if an index is not in [0, cols).
  CsrTensor gather(const std::vector<int32_t>& index, int64_t cols, const char* what);
  /// Returns a gather of values without gradient.
  CsrTensor gather_constants(const std::vector<int32_t>& index, int64_t cols);

  std::shared_ptr<const LevelTensors> level(const plans::PlanLevel& source, int64_t nodes, int64_t layout_rows,
                                            int64_t candidates);
  std::shared_ptr<const LayerTensors> layer(const plans::PlanLayer& source, int64_t below);
  std::shared_ptr<const StatementTensors> statements(const inference::StatementParts& parts);
  PoolTensors pool(const plans::PlanPool& source);

 private:
  torch::Dtype row_ptr_type() const { return row_ptr_type_on(options_.device); }
  CsrTensor pattern(const plans::CsrMatrix& source, const plans::CsrMatrix& turned);
  LongRows long_rows(const std::vector<int64_t>& row_ptr);

  PlanTensorOptions options_;
  gpu::Arena& arena_;
};

/// Returns the sum of values[e] * factor[columns[e]] of each row; an empty `factor` means ones.
std::vector<double> row_sums(const plans::CsrMatrix& matrix, const std::vector<double>& factor = {});

}  // namespace foretime::models
