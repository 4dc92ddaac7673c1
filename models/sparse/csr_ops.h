#pragma once

#include <utility>
#include <vector>

#include <torch/types.h>

#include "models/sparse/plan_tensors.h"

/// Differentiable operations on the rows of a matrix of states: sums of products with sparse matrices, maxima over sets
/// of rows, and gathers. On the CPU each is a kernel of its own, parallel over rows; sums are taken in an order that
/// depends on the matrices alone, so results do not change with the number of threads. On a GPU products go to
/// cuSPARSE through ATen, the rest to ATen's operations, which are deterministic where torch's deterministic algorithms
/// are switched on. States of reduced precision (bfloat16) are summed in the type of the matrix. Gradients are first
/// order only.
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
/// entry's value; 0 without entries. The gradient goes to the first of several equal maxima, in the order of the
/// entries.
torch::Tensor csr_max(const CsrTensor& pattern, const torch::Tensor& x);

/// The same from ATen's operations alone, on any device: the slow twins.
torch::Tensor csr_sum_aten(const std::vector<CsrTermTensor>& terms, const SumEpilogue& epilogue = {});
torch::Tensor csr_max_aten(const CsrTensor& pattern, const torch::Tensor& x);

}  // namespace foretime::models
