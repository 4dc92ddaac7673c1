#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

/// Dense float32 matrices of the executor, and arithmetic on them, row after row.
namespace foretime::inference {

/// Uninitialised floats that are used again: a plan's values come and go, and fresh pages cost more than arithmetic.
class Workspace {
 public:
  std::vector<float> take(size_t size);
  void give(std::vector<float>&& buffer);

 private:
  static constexpr size_t kKept = 32;
  std::vector<std::vector<float>> free_;
};

/// A dense matrix, row after row.
struct Matrix {
  int64_t rows = 0, columns = 0;
  std::vector<float> values;  // at least rows * columns

  float* row(int64_t r) { return values.data() + r * columns; }
  const float* row(int64_t r) const { return values.data() + r * columns; }
  int64_t size() const { return rows * columns; }
};

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
