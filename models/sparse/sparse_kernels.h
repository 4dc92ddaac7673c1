#pragma once

#include <vector>

#include "models/sparse/sparse_ops.h"

/// Sparse operations without gradients, by the kernels of the CPU (inference/kernels/sparse_kernels.h) or those of GPUs
/// (models/gpu/sparse_kernels.h); gpu::uses_gpu_kernels chooses. Dense arguments are contiguous, of the matrix's type
/// and of the right shapes; nothing is checked. sparse_ops.h describes the results.
namespace foretime::models {

/// Holds the rows of a matrix, or of its transpose, as kernels read them.
struct CsrRows {
  int64_t rows = 0;
  torch::Tensor row_ptr, columns, values;  // see CsrTensor
  LongRows long_rows;
  bool zeros_are_none = false;
  // [entries] int32: row of `weights` that weighted_sum_kernel uses for each entry; undefined: the entry's index
  torch::Tensor position = {};

  static constexpr size_t kTensors = 7;  // number of tensors that append_to() appends
  /// Appends the tensors to a list that autograd saves for backward; zeros_are_none is not saved.
  void append_to(torch::autograd::variable_list& saved) const;
  /// Returns the rows that append_to() stored from saved[first] on.
  static CsrRows from(const torch::autograd::variable_list& saved, size_t first);
};
/// Returns the rows of the matrix, without positions.
CsrRows rows_of(const CsrTensor& matrix);
/// Returns the rows of the transpose, without positions.
CsrRows transposed_rows_of(const CsrTensor& matrix);

/// One term of a sum: matrix * x, [rows, width].
struct RowsTerm {
  CsrRows matrix;
  torch::Tensor x;  // [columns of the matrix, width]; need not be contiguous
};
/// Computes csr_sum of one or more terms, [rows, width], in the type of x.
torch::Tensor csr_sum_kernel(const std::vector<RowsTerm>& terms, const SumEpilogue& epilogue);
/// Returns the gradient before an activation: `gradient`, multiplied by `slope` where `output` is not positive.
torch::Tensor activation_gradient_kernel(const torch::Tensor& gradient, const torch::Tensor& output, double slope);

struct Maxima {
  torch::Tensor values, winners;  // [rows, width]; winners: int32 row of x of each maximum; -1: no entries
};
/// Computes csr_max for x [columns of the matrix, width]. Values of the matrix matter only on GPUs with zeros_are_none.
Maxima csr_max_kernel(const CsrRows& matrix, const torch::Tensor& x);
/// Computes the gradient of csr_max by x, [rows of `transposed`, width], from the gradient [rows, width] of the result.
torch::Tensor csr_max_gradient_kernel(const CsrRows& transposed, const torch::Tensor& winners,
                                      const torch::Tensor& gradient);

/// Computes weighted_sum, with the rows of `weights` that CsrRows::position names.
torch::Tensor weighted_sum_kernel(const CsrRows& matrix, const torch::Tensor& weights, const torch::Tensor& x);
/// Computes entry_products.
torch::Tensor entry_products_kernel(const CsrRows& matrix, const torch::Tensor& a, const torch::Tensor& b,
                                    int64_t heads);
/// Computes edge_softmax.
torch::Tensor edge_softmax_kernel(const CsrRows& matrix, const torch::Tensor& logits);
/// Computes the gradient of edge_softmax by its logits, from its result `weights` and the gradient of the result.
torch::Tensor edge_softmax_gradient_kernel(const CsrRows& matrix, const torch::Tensor& weights,
                                           const torch::Tensor& gradient);

/// Returns the row of each entry, [entries] int32, by a kernel for GPUs; `row_ptr` [rows + 1] is int32.
torch::Tensor entry_rows_on_gpu(const torch::Tensor& row_ptr, int64_t entries);

}  // namespace foretime::models
