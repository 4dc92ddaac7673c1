#pragma once

#include <vector>

#include "inference/runtime/run.h"

/// Products of a plan's matrices with values.
namespace foretime::inference {

struct SumTerm {
  const SparseMatrix* matrix;  // null: the identity
  const Matrix* x;
};

/// act(Σ matrix x + bias), where terms without entries cost nothing; bias may be null.
Matrix sum_of_products(const Run& run, const std::vector<SumTerm>& terms, const float* bias, float slope);

/// The maximum over the entries of each row; 0 without entries.
Matrix maximum_of_rows(const Run& run, const SparseMatrix& matrix, const Matrix& x);

}  // namespace foretime::inference
