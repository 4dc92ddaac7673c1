#pragma once

#include <torch/torch.h>

#include "models/plan_tensors.h"

/// Differentiable operations on the rows of a matrix of states: products with sparse matrices, maxima over sets of
/// rows, and gathers. On the CPU each is a kernel of its own, parallel over rows; sums are taken in an order that
/// depends on the matrix alone, so results do not change with the number of threads. Elsewhere they are compositions of
/// ATen's operations, which are deterministic on a GPU where torch's deterministic algorithms are switched on.
/// Gradients are first order only.
namespace foretime::models {

/// matrix * x: [rows, width] from x [cols, width], both in the type of the matrix (float or double). Throws ModelError
/// where x has other rows or another type.
torch::Tensor csr_matmul(const CsrTensor& matrix, const torch::Tensor& x);

/// Row r is the maximum, column by column, over the rows of x where row r of the matrix has an entry, whatever the
/// entry's value; 0 without entries. The gradient goes to the first of several equal maxima, in the order of the
/// entries.
torch::Tensor csr_max(const CsrTensor& pattern, const torch::Tensor& x);

/// x.index_select(0, index): [index, width] from x [rows, width]. ATen's gradient adds row by row; this one groups
/// equal indices.
torch::Tensor gather_rows(const torch::Tensor& x, const torch::Tensor& index);

/// Sum of the entries of each row: [rows, 1].
torch::Tensor csr_row_sums(const CsrTensor& matrix);

/// The same products and maxima from ATen's operations alone, on any device.
torch::Tensor csr_matmul_aten(const CsrTensor& matrix, const torch::Tensor& x);
torch::Tensor csr_max_aten(const CsrTensor& pattern, const torch::Tensor& x);

}  // namespace foretime::models
