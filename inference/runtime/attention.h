#pragma once

#include <cstdint>
#include <vector>

#include "inference/kernels/edge_kernels.h"
#include "inference/runtime/run.h"

/// What attention operations have in common.
namespace foretime::inference {

/// TorchScript's methods softmax_by_row and weighted.
extern const char* const kAttentionMethods;

/// The entries of a matrix as the edge kernels take them.
class Entries {
 public:
  Entries(const Run& run, const SparseMatrix& matrix);
  Entries(const Entries&) = delete;
  Entries& operator=(const Entries&) = delete;

  const EntryRows& rows() const { return rows_; }
  int64_t columns() const { return matrix_.columns; }
  int64_t count() const { return matrix_.entries(); }
  const float* values() const { return matrix_.values; }

 private:
  const SparseMatrix& matrix_;
  EntryRows rows_;
  std::vector<int64_t> unit_;
};

/// The rows of x summed over the entries of each row, by the softmax of `logits` [entries, heads] over the row.
Matrix attended(const Run& run, const Entries& entries, std::vector<float>&& logits, int64_t heads, const Matrix& x);

}  // namespace foretime::inference
