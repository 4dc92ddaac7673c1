#pragma once

#include <utility>
#include <vector>

#include <torch/types.h>

#include "models/sparse/plan_tensors.h"

/// Differentiable operations with sparse matrices, first order only. On the CPU, csr_sum is inference::csr_sum,
/// parallel over rows; on a GPU it is the functor gpu::CsrSum. csr_sum_kernel (sparse_kernels.h) chooses between the
/// two, and likewise for the other operations. There are no atomics, and sums have an order that depends on the
/// matrices alone, so that results depend neither on the number of threads nor on timing. States of reduced precision
/// (bfloat16, float16) are converted to the type of the matrix. Arguments of wrong sizes throw BrokenInvariant.
///
/// The functions csr_… work on the rows of a matrix of states: sums of products, maxima over sets of rows, gathers. The
/// other functions work on the entries of a matrix, for convolutions that weigh messages by their content: values of
/// entries are [entries, heads], in the order of the matrix; states are [.., heads * width], the columns of a head next
/// to each other. Matrices must come from a plan that was made with gradients, except under NoGradGuard.
namespace foretime::models {

/// One term of a sum: matrix * x, [rows, width] for x [cols, width].
using CsrTermTensor = std::pair<const CsrTensor*, torch::Tensor>;

/// Describes the bias and the activation that follow a sum, in the same pass.
struct SumEpilogue {
  torch::Tensor bias = {};  // [width]; undefined: none
  double slope = 1.0;       // factor of negative results: 1 is the identity, 0 is ReLU
};

/// Returns the sum of one or more terms of equal rows and widths, [rows, width], after bias and activation. An x has a
/// row for each column of its matrix, and the type of the matrix's values or a reduced one.
torch::Tensor csr_sum(const std::vector<CsrTermTensor>& terms, const SumEpilogue& epilogue = {});

/// Returns matrix * x, [rows, width], as csr_sum of one term.
torch::Tensor csr_matmul(const CsrTensor& matrix, const torch::Tensor& x);

/// Returns, for each row r and each column of x, the maximum of x[c] over the matrix's entries (r, c), whatever their
/// values (but those of value 0 are ignored with CsrTensor::zeros_are_none); 0 for a row without entries, NaN if an
/// x[c] is. The gradient goes to the first of several equal maxima, in the order of the entries.
torch::Tensor csr_max(const CsrTensor& pattern, const torch::Tensor& x);

/// Returns the gather of the source states (columns) of a matrix's entries, [entries, cols], for csr_sum.
CsrTensor entry_sources(const CsrTensor& matrix);
/// Returns the gather of the target states (rows) of a matrix's entries, [entries, rows], for csr_sum.
CsrTensor entry_targets(const CsrTensor& matrix);

/// Returns the softmax over the entries of each row and head, where an entry of value m counts as m entries, so that
/// merged messages of a plan have their full weight. Entries of value 0 get weight 0.
///   logits [entries, heads] → weights [entries, heads], which sum to 1 over each row with an entry of another value
torch::Tensor edge_softmax(const CsrTensor& matrix, const torch::Tensor& logits);

/// Returns out[r, h] = Σ over entries e of row r of weights[e, h] * x[column(e), h]. The matrix's values are not used.
///   weights [entries, heads], x [cols, heads * width] → [rows, heads * width]
torch::Tensor weighted_sum(const CsrTensor& matrix, const torch::Tensor& weights, const torch::Tensor& x);

/// Returns out[e, h] = a[row(e), h] · b[column(e), h], [entries, heads]; a [rows, columns], b [cols, columns].
torch::Tensor entry_products(const CsrTensor& matrix, const torch::Tensor& a, const torch::Tensor& b, int64_t heads);

/// Returns the row of each entry of the matrix, [entries] int32.
torch::Tensor entry_rows(const CsrTensor& matrix);
/// Returns for each entry of the transpose its index in the matrix, [entries] int32.
torch::Tensor transposed_entries(const CsrTensor& matrix);

}  // namespace foretime::models
