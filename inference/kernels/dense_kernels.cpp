#include "inference/kernels/dense_kernels.h"

#include <algorithm>
#include <cmath>

#include <cblas.h>

namespace foretime::inference {
namespace {

constexpr int64_t kMostRows = 1 << 20;  // limit of one call: OpenBLAS counts in 32 bits

}  // namespace

std::vector<float> Workspace::take(size_t size) {
  // The smallest that is large enough; else the largest grows.
  auto best = free_.end();
  for (auto i = free_.begin(); i != free_.end(); ++i) {
    if (i->capacity() < size) continue;
    if (best == free_.end() || i->capacity() < best->capacity()) best = i;
  }
  std::vector<float> buffer;
  if (best != free_.end()) {
    buffer = std::move(*best);
    free_.erase(best);
  }
  buffer.resize(size);
  return buffer;
}

void Workspace::give(std::vector<float>&& buffer) {
  if (buffer.capacity() == 0) return;
  if (free_.size() < kKept) {
    free_.push_back(std::move(buffer));
    return;
  }
  const auto smallest = std::min_element(free_.begin(), free_.end(),
                                         [](const auto& a, const auto& b) { return a.capacity() < b.capacity(); });
  if (smallest->capacity() < buffer.capacity()) *smallest = std::move(buffer);
}

void activate_leaky(float* values, int64_t count, float slope) {
  if (slope == 1.0F) return;
  for (int64_t i = 0; i < count; ++i) values[i] = values[i] < 0.0F ? values[i] * slope : values[i];
}

void dense_product(const Matrix& x, const float* weight, int64_t stride, const float* bias, float slope, Matrix& y) {
  const int64_t outputs = y.columns, inputs = x.columns;
  if (outputs == 1) {  // a dot product each: a call of a library would cost more
    for (int64_t r = 0; r < x.rows; ++r) {
      const float* row = x.row(r);
      float sum = 0.0F;
      for (int64_t k = 0; k < inputs; ++k) sum += row[k] * weight[k];
      if (bias) sum += bias[0];
      y.values[r] = sum < 0.0F ? sum * slope : sum;
    }
    return;
  }
  for (int64_t first = 0; first < x.rows; first += kMostRows) {
    const int64_t rows = std::min(kMostRows, x.rows - first);
    if (bias)
      for (int64_t r = first; r < first + rows; ++r) std::copy(bias, bias + outputs, y.row(r));
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, outputs, inputs, 1.0F, x.row(first), inputs, weight,
                stride, bias ? 1.0F : 0.0F, y.row(first), outputs);
    activate_leaky(y.row(first), rows * outputs, slope);
  }
}

void layer_normalize(const Matrix& x, const float* weight, const float* bias, float epsilon, Matrix& y) {
  const float count = x.columns;
  for (int64_t r = 0; r < x.rows; ++r) {
    const float* row = x.row(r);
    float* to = y.row(r);
    float mean = 0.0F, variance = 0.0F;
    for (int64_t k = 0; k < x.columns; ++k) mean += row[k];
    mean /= count;
    for (int64_t k = 0; k < x.columns; ++k) variance += (row[k] - mean) * (row[k] - mean);
    const float scale = 1.0F / std::sqrt(variance / count + epsilon);
    for (int64_t k = 0; k < x.columns; ++k) to[k] = (row[k] - mean) * scale * weight[k] + bias[k];
  }
}

void l2_normalize(const Matrix& x, float smallest, Matrix& y) {
  for (int64_t r = 0; r < x.rows; ++r) {
    const float* row = x.row(r);
    float* to = y.row(r);
    float square = 0.0F;
    for (int64_t k = 0; k < x.columns; ++k) square += row[k] * row[k];
    const float norm = std::max(std::sqrt(square), smallest);
    for (int64_t k = 0; k < x.columns; ++k) to[k] = row[k] / norm;
  }
}

}  // namespace foretime::inference
