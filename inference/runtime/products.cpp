#include "inference/runtime/products.h"

#include <algorithm>
#include <numeric>

#include "inference/kernels/csr_kernels.h"

namespace foretime::inference {

Matrix sum_of_products(const Run& run, const std::vector<SumTerm>& terms, const float* bias, float slope) {
  using Kind = SparseMatrix::Kind;
  int64_t rows = -1;
  std::vector<int32_t> identity;
  for (const auto& [matrix, x] : terms) {
    if (matrix && matrix->kind != Kind::zero) run.expect_rows(x->rows, matrix->columns);
    const int64_t of_term = matrix ? matrix->rows : x->rows;
    if (rows >= 0) run.expect_rows(of_term, rows);
    rows = of_term;
    if (identity.empty() && (!matrix || matrix->kind == Kind::identity)) {
      identity.resize(static_cast<size_t>(rows));
      std::iota(identity.begin(), identity.end(), 0);
    }
  }
  std::vector<CsrTerm<float>> raw;
  for (const auto& [matrix, x] : terms) {
    if (matrix && matrix->kind == Kind::zero) continue;
    if (!matrix || matrix->kind == Kind::identity)
      raw.push_back({nullptr, identity.data(), nullptr, x->values.data()});
    else
      raw.push_back({matrix->row_ptr, matrix->column_of, matrix->values, x->values.data()});
  }
  auto y = run.made(rows, terms.front().x->columns);
  sum_terms<float>(rows, raw.data(), static_cast<int64_t>(raw.size()), {bias, slope}, y.columns, y.values.data());
  return y;
}

Matrix maximum_of_rows(const Run& run, const SparseMatrix& matrix, const Matrix& x) {
  using Kind = SparseMatrix::Kind;
  if (matrix.kind != Kind::csr && matrix.kind != Kind::zero)
    return sum_of_products(run, {{&matrix, &x}}, nullptr, 1.0F);
  auto y = run.made(matrix.rows, x.columns);
  if (matrix.kind == Kind::zero) {
    std::fill(y.values.begin(), y.values.begin() + y.size(), 0.0F);
    return y;
  }
  run.expect_rows(x.rows, matrix.columns);
  std::vector<int32_t> winner(static_cast<size_t>(y.size()));
  max_rows<float>(matrix.rows, matrix.row_ptr, matrix.column_of, x.values.data(), x.columns, y.values.data(),
                  winner.data());
  return y;
}

}  // namespace foretime::inference
