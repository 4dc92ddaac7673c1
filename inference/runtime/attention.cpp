#include "inference/runtime/attention.h"

#include <utility>

namespace foretime::inference {

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
    unit_.resize(static_cast<size_t>(matrix.rows) + 1);
    for (size_t r = 0; r < unit_.size(); ++r) unit_[r] = static_cast<int64_t>(r);
    rows_.row_ptr = unit_.data();
  } else if (matrix.kind != SparseMatrix::Kind::csr) {
    run.fail("attention over a matrix without entries of its own");
  }
}

Matrix attended(const Run& run, const Entries& entries, std::vector<float>&& logits, int64_t heads, const Matrix& x) {
  run.expect_rows(x.rows, entries.columns());
  auto weights = run.taken(entries.count() * heads);
  softmax_rows<float>(entries.rows(), entries.values(), logits.data(), heads, weights.data());
  auto y = run.made(entries.rows().rows, x.columns);
  weighted_rows<float>(entries.rows(), weights.data(), x.values.data(), heads, x.columns / heads, y.values.data());
  run.give(std::move(logits));
  run.give(std::move(weights));
  return y;
}

}  // namespace foretime::inference
