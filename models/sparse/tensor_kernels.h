#pragma once

#include <vector>

#include "models/sparse/sparse_ops.h"

/// One call each of what sparse operations are made of, without gradients: by the CPU's kernels (inference/kernels), or
/// by the bodies that GPUs run (models/device). States are contiguous and of the type of the matrix.
namespace foretime::models {

/// The rows of a matrix as its kernels read them, or those of its transpose.
struct CsrRows {
  int64_t rows = 0;
  torch::Tensor row_ptr, columns, values;
  LongRows long_rows;
  bool zeros_are_none = false;
  torch::Tensor position =
      {};  // [entries] int32 where an entry's weights stand; undefined: in the order of the entries

  /// As autograd keeps it, for gradients, which do not ask whether zeros are none.
  static constexpr size_t kTensors = 7;
  void append_to(torch::autograd::variable_list& saved) const;
  static CsrRows from(const torch::autograd::variable_list& saved, size_t first);
};
CsrRows rows_of(const CsrTensor& matrix);
/// Without positions.
CsrRows transposed_rows_of(const CsrTensor& matrix);

struct RowsTerm {
  CsrRows matrix;
  torch::Tensor x;
};
torch::Tensor sum_rows(const std::vector<RowsTerm>& terms, const SumEpilogue& epilogue);
/// gradient, times slope where output is not positive.
torch::Tensor activation_gradient(const torch::Tensor& gradient, const torch::Tensor& output, double slope);

struct Maxima {
  torch::Tensor values, winners;  // [rows, width]; int32: the row of x that it came from, or -1
};
Maxima max_rows(const CsrRows& matrix, const torch::Tensor& x);
torch::Tensor max_rows_gradient(const CsrRows& transposed, const torch::Tensor& winners, const torch::Tensor& gradient);

torch::Tensor weighted_rows(const CsrRows& matrix, const torch::Tensor& weights, const torch::Tensor& x);
torch::Tensor entry_dots(const CsrRows& matrix, const torch::Tensor& a, const torch::Tensor& b, int64_t heads);
torch::Tensor softmax_rows(const CsrRows& matrix, const torch::Tensor& logits);
torch::Tensor softmax_rows_gradient(const CsrRows& matrix, const torch::Tensor& weights, const torch::Tensor& gradient);

/// [entries] int32, of a matrix that is laid out for a device.
torch::Tensor device_entry_rows(const torch::Tensor& row_ptr, int64_t entries);

}  // namespace foretime::models
