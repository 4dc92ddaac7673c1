#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

/// Dense float32 matrices of the executor, and arithmetic on them, row after row.
namespace foretime::inference {

/// Keeps buffers of floats for reuse, because fresh memory costs more time than arithmetic. Not thread-safe.
class Workspace {
 public:
  /// Returns a buffer of `size` floats with unspecified values.
  std::vector<float> take(size_t size);
  /// Takes back a buffer for later calls of `take`. Keeps at most kKept buffers, the larger ones.
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

/// Computes y = act(x Wᵀ + bias), where act multiplies negative numbers by `slope`. W [columns of y, columns of x]
/// begins at `weight`, its rows `stride` floats apart. `bias` [columns of y] may be null. y must have the rows of x.
void dense_product(const Matrix& x, const float* weight, int64_t stride, const float* bias, float slope, Matrix& y);

/// Multiplies the negative ones of `count` numbers by `slope`, in place.
void activate_leaky(float* values, int64_t count, float slope);

/// Computes y = (x - mean) / sqrt(variance + epsilon) * weight + bias, with mean and variance of each row of x.
/// `weight` and `bias` have a number for each column.
void layer_normalize(const Matrix& x, const float* weight, const float* bias, float epsilon, Matrix& y);

/// Computes y: each row of x divided by its Euclidean norm, or by `smallest` if the norm is below that.
void l2_normalize(const Matrix& x, float smallest, Matrix& y);

}  // namespace foretime::inference
