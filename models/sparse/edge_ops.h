#pragma once

#include <torch/types.h>

#include "models/sparse/plan_tensors.h"

/// Differentiable operations on the entries of a sparse matrix, for convolutions that weigh messages by what they say.
/// Values of entries are [entries, heads], in the order of the matrix; states are [.., heads * width], the columns of a
/// head side by side. On the CPU kernels of our own, on a GPU ATen's operations. Matrices must come from a plan that
/// was made with gradients, except under NoGradGuard. States of reduced precision are taken in the matrix's type.
/// Gradients are first order only.
namespace foretime::models {

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

/// The same from ATen's operations alone, on any device: the slow twins.
torch::Tensor edge_softmax_aten(const CsrTensor& matrix, const torch::Tensor& logits);
torch::Tensor weighted_sum_aten(const CsrTensor& matrix, const torch::Tensor& weights, const torch::Tensor& x);
torch::Tensor entry_products_aten(const CsrTensor& matrix, const torch::Tensor& a, const torch::Tensor& b,
                                  int64_t heads);

/// [entries] int32: which entry of the matrix an entry of its transpose is.
torch::Tensor transposed_entries(const CsrTensor& matrix);

}  // namespace foretime::models
