#pragma once

#include <vector>

#include "models/sparse/sparse_ops.h"

/// Sparse operations without gradients, by the kernels of the CPU (inference/kernels/sparse_kernels.h) or those of GPUs
/// (models/gpu/sparse_kernels.h). States are contiguous and have the type of the matrix.
namespace foretime::models {

/// Holds the rows of a matrix, or of its transpose, as kernels read them.
struct CsrRows {
  int64_t rows = 0;
  torch::Tensor row_ptr, columns, values;
  LongRows long_rows;
  bool zeros_are_none = false;
  // [entries] int32 index of an entry's weights; undefined: same as the entry
  torch::Tensor position = {};

  /// The number of tensors that `append_to` stores in autograd's list, for gradients, which do not use zeros_are_none.
  static constexpr size_t kTensors = 7;
  void append_to(torch::autograd::variable_list& saved) const;
  static CsrRows from(const torch::autograd::variable_list& saved, size_t first);
};
CsrRows rows_of(const CsrTensor& matrix);
/// Returns the rows of the transpose, without positions.
CsrRows transposed_rows_of(const CsrTensor& matrix);

struct RowsTerm {
  CsrRows matrix;
  torch::Tensor x;
};
torch::Tensor csr_sum_kernel(const std::vector<RowsTerm>& terms, const SumEpilogue& epilogue);
/// Returns the gradient before an activation: `gradient`, times slope where `output` is not positive.
torch::Tensor activation_gradient_kernel(const torch::Tensor& gradient, const torch::Tensor& output, double slope);

struct Maxima {
  torch::Tensor values, winners;  // [rows, width]; winners: int32 row of x of each maximum, or -1
};
Maxima csr_max_kernel(const CsrRows& matrix, const torch::Tensor& x);
torch::Tensor csr_max_gradient_kernel(const CsrRows& transposed, const torch::Tensor& winners,
                                      const torch::Tensor& gradient);

torch::Tensor weighted_sum_kernel(const CsrRows& matrix, const torch::Tensor& weights, const torch::Tensor& x);
torch::Tensor entry_products_kernel(const CsrRows& matrix, const torch::Tensor& a, const torch::Tensor& b,
                                    int64_t heads);
torch::Tensor edge_softmax_kernel(const CsrRows& matrix, const torch::Tensor& logits);
torch::Tensor edge_softmax_gradient_kernel(const CsrRows& matrix, const torch::Tensor& weights,
                                           const torch::Tensor& gradient);

/// Returns the row of each entry, [entries] int32, for a matrix with the layout of a device.
torch::Tensor entry_rows_on_gpu(const torch::Tensor& row_ptr, int64_t entries);

}  // namespace foretime::models
