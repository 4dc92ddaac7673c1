#pragma once

#include <utility>
#include <vector>

#include <torch/types.h>

#include "models/sparse/plan_tensors.h"

/// Differentiable operations with sparse matrices, first order only. On the CPU each is a kernel of our own, parallel
/// over rows, on a GPU another (models/device): no atomics, and sums are taken in an order that depends on the matrices
/// alone, so results change neither with the number of threads nor from run to run. States of reduced precision
/// (bfloat16) are taken in the type of the matrix.
///
/// csr_… work on the rows of a matrix of states: sums of products, maxima over sets of rows, gathers. The others work
/// on the entries of a matrix, for convolutions that weigh messages by what they say: values of entries are [entries,
/// heads], in the order of the matrix; states are [.., heads * width], the columns of a head side by side. Their
/// matrices must come from a plan that was made with gradients, except under NoGradGuard.
namespace foretime::models {

/// One term of a sum: matrix * x, [rows, width] from x [cols, width].
using CsrTermTensor = std::pair<const CsrTensor*, torch::Tensor>;

/// What follows the sum, in the same pass.
struct SumEpilogue {
  torch::Tensor bias = {};  // [width], undefined: none
  double slope = 1.0;       // negative results are multiplied by it: 1 leaves them, 0 is ReLU
};

/// The sum of all terms, which have equal rows and widths, and its epilogue. Throws ModelError where x has other rows
/// than its matrix has columns, or another floating-point type.
torch::Tensor csr_sum(const std::vector<CsrTermTensor>& terms, const SumEpilogue& epilogue = {});

/// matrix * x.
torch::Tensor csr_matmul(const CsrTensor& matrix, const torch::Tensor& x);

/// Row r is the maximum, column by column, over the rows of x where row r of the matrix has an entry, whatever the
/// entry's value (but CsrTensor::zeros_are_none); 0 without entries. The gradient goes to the first of several equal
/// maxima, in the order of the entries.
torch::Tensor csr_max(const CsrTensor& pattern, const torch::Tensor& x);

/// From ATen's operations alone, on any device: the slow twins.
torch::Tensor csr_sum_aten(const std::vector<CsrTermTensor>& terms, const SumEpilogue& epilogue = {});
torch::Tensor csr_max_aten(const CsrTensor& pattern, const torch::Tensor& x);

/// What a matrix's entries take from the states of their source (column) or of their target (row): gathers [entries,
/// cols] and [entries, rows], to be used by csr_sum.
CsrTensor entry_sources(const CsrTensor& matrix);
CsrTensor entry_targets(const CsrTensor& matrix);

/// Softmax over the entries of each row, head by head, where an entry of value m counts as m entries: messages that a
/// plan has merged weigh as much as those that it has not.
///   logits [entries, heads] → weights [entries, heads], which sum to 1 over each row that has entries
torch::Tensor edge_softmax(const CsrTensor& matrix, const torch::Tensor& logits);

/// out[r, h] = Σ over entries e of row r of weights[e, h] * x[column(e), h]. The matrix's own values do not count.
///   weights [entries, heads], x [cols, heads * width] → [rows, heads * width]
torch::Tensor weighted_sum(const CsrTensor& matrix, const torch::Tensor& weights, const torch::Tensor& x);

/// out[e, h] = a[row(e), h] · b[column(e), h]: a [rows, heads * width], b [cols, heads * width] → [entries, heads].
torch::Tensor entry_products(const CsrTensor& matrix, const torch::Tensor& a, const torch::Tensor& b, int64_t heads);

/// From ATen's operations alone, on any device: the slow twins.
torch::Tensor edge_softmax_aten(const CsrTensor& matrix, const torch::Tensor& logits);
torch::Tensor weighted_sum_aten(const CsrTensor& matrix, const torch::Tensor& weights, const torch::Tensor& x);
torch::Tensor entry_products_aten(const CsrTensor& matrix, const torch::Tensor& a, const torch::Tensor& b,
                                  int64_t heads);

/// [entries] int32: the row of each entry.
torch::Tensor entry_rows(const CsrTensor& matrix);
/// [entries] int32: which entry of the matrix an entry of its transpose is.
torch::Tensor transposed_entries(const CsrTensor& matrix);

}  // namespace foretime::models
