#include "inference/kernels/edge_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace foretime::inference {
namespace {

constexpr int64_t kSmallEdgeWork = 1 << 14;  // multiplications below which threads cost more than they save

int64_t at_once(int64_t rows) { return std::clamp<int64_t>(rows / 64, 1, 256); }

}  // namespace

template <class T>
void weighted_rows(const EntryRows& matrix, const T* weights, const T* x, int64_t heads, int64_t width, T* out) {
  const int64_t all = heads * width, rows = matrix.rows;
  const bool small = matrix.row_ptr[rows] * all < kSmallEdgeWork;
#pragma omp parallel for schedule(dynamic, at_once(rows)) if (!small)
  for (int64_t r = 0; r < rows; ++r) {
    T* sum = out + r * all;
    std::fill(sum, sum + all, T(0));
    for (int64_t e = matrix.row_ptr[r]; e < matrix.row_ptr[r + 1]; ++e) {
      const T* weight = weights + (matrix.position ? matrix.position[e] : e) * heads;
      const T* row = x + matrix.columns[e] * all;
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t k = 0; k < width; ++k) sum[h * width + k] += weight[h] * row[h * width + k];
      }
    }
  }
}

template <class T>
void entry_dots(const EntryRows& matrix, const T* a, const T* b, int64_t heads, int64_t width, T* out) {
  const int64_t all = heads * width, rows = matrix.rows;
  const bool small = matrix.row_ptr[rows] * all < kSmallEdgeWork;
#pragma omp parallel for schedule(dynamic, at_once(rows)) if (!small)
  for (int64_t r = 0; r < rows; ++r) {
    const T* left = a + r * all;
    for (int64_t e = matrix.row_ptr[r]; e < matrix.row_ptr[r + 1]; ++e) {
      const T* right = b + matrix.columns[e] * all;
      T* dots = out + (matrix.position ? matrix.position[e] : e) * heads;
      for (int64_t h = 0; h < heads; ++h) {
        T sum = T(0);
        for (int64_t k = 0; k < width; ++k) sum += left[h * width + k] * right[h * width + k];
        dots[h] = sum;
      }
    }
  }
}

template <class T>
void softmax_rows(const EntryRows& matrix, const T* multiplicity, const T* logits, int64_t heads, T* weights) {
  const int64_t rows = matrix.rows;
  const bool small = matrix.row_ptr[rows] * heads < kSmallEdgeWork;
#pragma omp parallel for schedule(dynamic, at_once(rows)) if (!small)
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t first = matrix.row_ptr[r], last = matrix.row_ptr[r + 1];
    for (int64_t h = 0; h < heads; ++h) {
      T largest = -std::numeric_limits<T>::infinity(), sum = T(0);
      for (int64_t e = first; e < last; ++e) largest = std::max(largest, logits[e * heads + h]);
      for (int64_t e = first; e < last; ++e) {
        const T m = multiplicity ? multiplicity[e] : T(1);
        weights[e * heads + h] = m * std::exp(logits[e * heads + h] - largest);
        sum += weights[e * heads + h];
      }
      const T scale = sum == T(0) ? T(0) : T(1) / sum;
      for (int64_t e = first; e < last; ++e) weights[e * heads + h] *= scale;
    }
  }
}

template <class T>
void softmax_rows_gradient(const EntryRows& matrix, const T* weights, const T* from, int64_t heads, T* to) {
  const int64_t rows = matrix.rows;
  const bool small = matrix.row_ptr[rows] * heads < kSmallEdgeWork;
#pragma omp parallel for schedule(dynamic, at_once(rows)) if (!small)
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t first = matrix.row_ptr[r], last = matrix.row_ptr[r + 1];
    for (int64_t h = 0; h < heads; ++h) {
      T sum = T(0);
      for (int64_t e = first; e < last; ++e) sum += weights[e * heads + h] * from[e * heads + h];
      for (int64_t e = first; e < last; ++e) to[e * heads + h] = weights[e * heads + h] * (from[e * heads + h] - sum);
    }
  }
}

void transposed_positions(const EntryRows& matrix, int64_t cols, const int64_t* transposed_row_ptr, int32_t* position) {
  std::vector<int64_t> next(transposed_row_ptr, transposed_row_ptr + cols);
  for (int64_t e = 0; e < matrix.row_ptr[matrix.rows]; ++e)
    position[next[static_cast<size_t>(matrix.columns[e])]++] = static_cast<int32_t>(e);
}

template void weighted_rows<float>(const EntryRows&, const float*, const float*, int64_t, int64_t, float*);
template void weighted_rows<double>(const EntryRows&, const double*, const double*, int64_t, int64_t, double*);
template void entry_dots<float>(const EntryRows&, const float*, const float*, int64_t, int64_t, float*);
template void entry_dots<double>(const EntryRows&, const double*, const double*, int64_t, int64_t, double*);
template void softmax_rows<float>(const EntryRows&, const float*, const float*, int64_t, float*);
template void softmax_rows<double>(const EntryRows&, const double*, const double*, int64_t, double*);
template void softmax_rows_gradient<float>(const EntryRows&, const float*, const float*, int64_t, float*);
template void softmax_rows_gradient<double>(const EntryRows&, const double*, const double*, int64_t, double*);

}  // namespace foretime::inference
