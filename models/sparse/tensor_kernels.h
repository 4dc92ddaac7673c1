#pragma once

#include <vector>

#include "models/sparse/sparse_ops.h"

/// Kernels of the sparse operations, without gradients: those of the CPU (inference/kernels), or the kernels of GPUs
/// (models/device). States are contiguous and have the type of the matrix.
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
torch::Tensor sum_rows(const std::vector<RowsTerm>& terms, const SumEpilogue& epilogue);
/// Returns the gradient before an activation: `gradient`, times slope where `output` is not positive.
torch::Tensor activation_gradient(const torch::Tensor& gradient, const torch::Tensor& output, double slope);

struct Maxima {
  torch::Tensor values, winners;  // [rows, width]; winners: int32 row of x of each maximum, or -1
};
Maxima max_rows(const CsrRows& matrix, const torch::Tensor& x);
torch::Tensor max_rows_gradient(const CsrRows& transposed, const torch::Tensor& winners, const torch::Tensor& gradient);

torch::Tensor weighted_rows(const CsrRows& matrix, const torch::Tensor& weights, const torch::Tensor& x);
torch::Tensor entry_dots(const CsrRows& matrix, const torch::Tensor& a, const torch::Tensor& b, int64_t heads);
torch::Tensor softmax_rows(const CsrRows& matrix, const torch::Tensor& logits);
torch::Tensor softmax_rows_gradient(const CsrRows& matrix, const torch::Tensor& weights, const torch::Tensor& gradient);

/// Returns the row of each entry, [entries] int32, for a matrix with the layout of a device.
torch::Tensor device_entry_rows(const torch::Tensor& row_ptr, int64_t entries);

}  // namespace foretime::models
