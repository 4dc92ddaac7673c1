#pragma once

#include <cstdint>

#include "inference/kernels/matrix.h"

/// Dense arithmetic of the executor, on float32 matrices, row after row.
namespace foretime::inference {

/// y = act(x Wᵀ + bias): W's first column is `weight`, its rows are `stride` apart; bias [columns of y] or null. y has
/// its sizes. The product is OpenBLAS's.
void dense_product(const Matrix& x, const float* weight, int64_t stride, const float* bias, float slope, Matrix& y);

/// Multiplies negative numbers by `slope`; 1 does nothing.
void activate_leaky(float* values, int64_t count, float slope);

/// Each row: (x - mean) / sqrt(variance + epsilon) * weight + bias.
void layer_normalize(const Matrix& x, const float* weight, const float* bias, float epsilon, Matrix& y);

/// Each row over its Euclidean norm, at least `smallest`.
void l2_normalize(const Matrix& x, float smallest, Matrix& y);

}  // namespace foretime::inference
