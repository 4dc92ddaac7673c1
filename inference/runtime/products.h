#pragma once

#include <cstdint>
#include <vector>

#include "base/no_copy.h"
#include "inference/kernels/sparse_kernels.h"
#include "inference/runtime/context.h"

/// Products of sparse matrices with values, and attention over the entries of a sparse matrix.
namespace foretime::inference {

struct SumTerm {
  const SparseMatrix* matrix;  // null: the identity
  const Matrix* x;
};

/// Returns act(Σ matrix · x + bias) over at least one term. act multiplies negative numbers by `slope`. `bias` [columns
/// of x] may be null. Terms whose matrix is zero cost nothing. Throws BundleError if numbers of rows do not match.
Matrix sum_of_products(const Run& run, const std::vector<SumTerm>& terms, const float* bias, float slope);

/// Returns for each row r of `matrix` and each column of x the maximum over those rows of x whose numbers are columns
/// of entries in r. The entries' values are ignored. A row without entries gives 0. Throws BundleError if x does not
/// have a row for each column of `matrix`.
Matrix maximum_of_rows(const Run& run, const SparseMatrix& matrix, const Matrix& x);

/// The text of the TorchScript methods softmax_by_row and weighted.
extern const char* const kAttentionMethods;

/// Holds the entries of a matrix in the form that the kernels for attention read. Borrows the matrix.
class Entries : NoCopy {
 public:
  /// Throws BundleError if the matrix is identity or zero, which store no entries.
  Entries(const Run& run, const SparseMatrix& matrix);

  const EntryRows& rows() const { return rows_; }
  int64_t columns() const { return matrix_.columns; }
  int64_t count() const { return matrix_.entries(); }
  const float* values() const { return matrix_.values; }

 private:
  const SparseMatrix& matrix_;
  EntryRows rows_;
  std::vector<int64_t> unit_;  // row_ptr of a gather: 0, 1, 2, …
};

/// Returns y[r] = Σ over the entries e of row r of w[e, h] · x[column(e)], where h is the head of the output column:
/// head h has the h-th of `heads` equal blocks of columns. w is the softmax of `logits` [entries, heads] over a row,
/// with the matrix's values as multiplicities; 0 without entries. Throws BundleError if x.rows != entries.columns().
Matrix attended(const Run& run, const Entries& entries, std::vector<float>&& logits, int64_t heads, const Matrix& x);

}  // namespace foretime::inference
