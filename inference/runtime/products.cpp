#include "inference/runtime/products.h"

#include <algorithm>
#include <numeric>
#include <utility>

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
      identity.resize(rows);
      std::iota(identity.begin(), identity.end(), 0);
    }
  }
  std::vector<CsrTerm<float>> raw;
  for (const auto& [matrix, x] : terms) {
    if (matrix && matrix->kind == Kind::zero) continue;
    if (!matrix || matrix->kind == Kind::identity) raw.push_back({nullptr, identity.data(), nullptr, x->values.data()});
    else raw.push_back({matrix->row_ptr, matrix->column_of, matrix->values, x->values.data()});
  }
  auto y = run.made(rows, terms.front().x->columns);
  csr_sum<float>(rows, raw.data(), std::ssize(raw), {bias, slope}, y.columns, y.values.data());
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
  std::vector<int32_t> winner(y.size());
  csr_max<float>(matrix.rows, matrix.row_ptr, matrix.column_of, x.values.data(), x.columns, y.values.data(),
                 winner.data());
  return y;
}

const char* const kAttentionMethods = R"(
def softmax_by_row(self, m: Dict[str, Tensor], name: str, logits: Tensor) -> Tensor:
    rows = self.rows_of(m, name)
    count = m[name + ".row_ptr"].size(0) - 1
    index = rows.unsqueeze(1).expand_as(logits)
    zeros = torch.zeros([count, logits.size(1)], dtype=logits.dtype, device=logits.device)
    largest = zeros.scatter_reduce(0, index, logits, "amax", include_self=False)
    weights = torch.exp(logits - largest.index_select(0, rows)) * m[name + ".values"].unsqueeze(1)
    sums = zeros.index_add(0, rows, weights)
    return weights / torch.where(sums == 0, torch.ones_like(sums), sums).index_select(0, rows)


def weighted(self, m: Dict[str, Tensor], name: str, weights: Tensor, x: Tensor) -> Tensor:
    rows = m[name + ".row_ptr"].size(0) - 1
    messages = x.index_select(0, m[name + ".columns"]).view([-1, weights.size(1), x.size(1) // weights.size(1)])
    messages = (messages * weights.unsqueeze(2)).view([-1, x.size(1)])
    return torch.zeros([rows, x.size(1)], dtype=x.dtype, device=x.device).index_add(0, self.rows_of(m, name), messages)

)";

Entries::Entries(const Run& run, const SparseMatrix& matrix) : matrix_(matrix) {
  rows_ = {matrix.rows, matrix.row_ptr, matrix.column_of, nullptr};
  if (matrix.kind == SparseMatrix::Kind::gather) {
    unit_.resize(matrix.rows + 1);
    for (size_t r = 0; r < unit_.size(); ++r) unit_[r] = r;
    rows_.row_ptr = unit_.data();
  } else if (matrix.kind != SparseMatrix::Kind::csr) {
    run.fail("attention over a matrix without stored entries");
  }
}

Matrix attended(const Run& run, const Entries& entries, std::vector<float>&& logits, int64_t heads, const Matrix& x) {
  run.expect_rows(x.rows, entries.columns());
  auto weights = run.taken(entries.count() * heads);
  edge_softmax<float>(entries.rows(), entries.values(), logits.data(), heads, weights.data());
  auto y = run.made(entries.rows().rows, x.columns);
  weighted_sum<float>(entries.rows(), weights.data(), x.values.data(), heads, x.columns / heads, y.values.data());
  run.give(std::move(logits));
  run.give(std::move(weights));
  return y;
}

}  // namespace foretime::inference
