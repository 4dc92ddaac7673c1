#pragma once

#include <torch/torch.h>

#include "models/sparse/csr_ops.h"

/// A (X W) or (A X) W: the order does not matter to the result. Convolutions multiply by their weights first where that
/// costs less: plans seldom have more states below than above.
namespace foretime::models {

/// Whether matrix * (x * weightᵀ) takes fewer multiplications than (matrix * x) * weightᵀ.
inline bool multiplies_first(const CsrTensor& matrix, const torch::Tensor& weight) {
  const int64_t output = weight.size(0), input = weight.size(1), entries = matrix.columns.size(0);
  return matrix.cols * input * output + entries * output <= matrix.rows * input * output + entries * input;
}

inline torch::nn::Linear dense_linear(int64_t input, int64_t output, bool bias) {
  return torch::nn::Linear(torch::nn::LinearOptions(input, output).bias(bias));
}

}  // namespace foretime::models
