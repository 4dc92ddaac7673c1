#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

/// Dense float32 matrices of the executor, and arithmetic on them, row after row.
namespace foretime::inference {

/// Keeps uninitialised buffers of floats for reuse, because fresh pages cost more time than arithmetic.
class Workspace {
 public:
  /// Returns a buffer of at least `size` uninitialised numbers.
  std::vector<float> take(size_t size);
  /// Returns a buffer for reuse.
  void give(std::vector<float>&& buffer);

 private:
  static constexpr size_t kKept = 32;
  std::vector<std::vector<float>> free_;
};

/// Holds a dense matrix, row-major.
struct Matrix {
  int64_t rows = 0, columns = 0;
  std::vector<float> values;  // [rows * columns], or longer

  float* row(int64_t r) { return values.data() + r * columns; }
  const float* row(int64_t r) const { return values.data() + r * columns; }
  int64_t size() const { return rows * columns; }
};

/// Computes y = act(x Wᵀ + bias) by OpenBLAS. W's first column is `weight`, its rows are `stride` apart; bias [columns
/// of y] or null. y must have its size.
void dense_product(const Matrix& x, const float* weight, int64_t stride, const float* bias, float slope, Matrix& y);

/// Multiplies negative numbers by `slope`; 1 does nothing.
void activate_leaky(float* values, int64_t count, float slope);

/// Computes (x - mean) / sqrt(variance + epsilon) * weight + bias for each row.
void layer_normalize(const Matrix& x, const float* weight, const float* bias, float epsilon, Matrix& y);

/// Divides each row by its Euclidean norm, or by `smallest` if that is larger.
void l2_normalize(const Matrix& x, float smallest, Matrix& y);

}  // namespace foretime::inference
