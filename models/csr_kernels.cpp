#include "models/csr_kernels.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace foretime::models {
namespace {

constexpr int64_t kLongRow = 8192;       // entries; longer rows are cut
constexpr int64_t kPiece = 2048;         // entries of one piece of a long row
constexpr int64_t kColumnBlock = 32;     // columns kept in registers at once
constexpr int64_t kSmallWork = 1 << 14;  // multiplications below which threads cost more than they save

// The inner loop is compiled for several instruction sets and chosen when the program is loaded. Sanitizers start too
// late for that.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define FORETIME_MULTIVERSION __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FORETIME_MULTIVERSION
#endif

template <class T>
[[gnu::always_inline]] inline void sum_entries_body(const int32_t* columns, const T* values, int64_t entries,
                                                    const T* x, int64_t width, T* out) {
  int64_t start = 0;
  for (; start + kColumnBlock <= width; start += kColumnBlock) {
    T sum[kColumnBlock] = {};
    for (int64_t e = 0; e < entries; ++e) {
      const T* row = x + columns[e] * width + start;
      const T value = values ? values[e] : T(1);
      for (int64_t k = 0; k < kColumnBlock; ++k) sum[k] += value * row[k];
    }
    std::copy_n(sum, kColumnBlock, out + start);
  }
  if (start == width) return;
  std::fill(out + start, out + width, T(0));
  for (int64_t e = 0; e < entries; ++e) {
    const T* row = x + columns[e] * width;
    const T value = values ? values[e] : T(1);
    for (int64_t k = start; k < width; ++k) out[k] += value * row[k];
  }
}

FORETIME_MULTIVERSION void sum_entries(const int32_t* columns, const float* values, int64_t entries, const float* x,
                                       int64_t width, float* out) {
  sum_entries_body(columns, values, entries, x, width, out);
}

FORETIME_MULTIVERSION void sum_entries(const int32_t* columns, const double* values, int64_t entries, const double* x,
                                       int64_t width, double* out) {
  sum_entries_body(columns, values, entries, x, width, out);
}

/// One row by all threads.
template <class T>
void sum_long_row(const int32_t* columns, const T* values, int64_t entries, const T* x, int64_t width, T* out) {
  const int64_t pieces = (entries + kPiece - 1) / kPiece;
  std::vector<T> sums(static_cast<size_t>(pieces * width));
#pragma omp parallel for schedule(static)
  for (int64_t p = 0; p < pieces; ++p) {
    const int64_t first = p * kPiece, count = std::min(kPiece, entries - first);
    sum_entries(columns + first, values ? values + first : nullptr, count, x, width, sums.data() + p * width);
  }
  std::copy_n(sums.data(), width, out);
  for (int64_t p = 1; p < pieces; ++p) {
    for (int64_t k = 0; k < width; ++k) out[k] += sums[static_cast<size_t>(p * width + k)];
  }
}

}  // namespace

template <class T>
void sum_rows(int64_t rows, const int64_t* row_ptr, const int32_t* columns, const T* values, const T* x, int64_t width,
              T* out) {
  const auto entries_from = [values](int64_t first) { return values ? values + first : nullptr; };
  const bool small = (row_ptr[rows] + rows) * width < kSmallWork;
  // Few rows, as in a readout, are long ones: each is worth a turn of its own.
  const int64_t turn = std::clamp<int64_t>(rows / 64, 1, 256);
#pragma omp parallel for schedule(dynamic, turn) if (!small)
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t first = row_ptr[r], count = row_ptr[r + 1] - first;
    if (count <= kLongRow) sum_entries(columns + first, entries_from(first), count, x, width, out + r * width);
  }
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t first = row_ptr[r], count = row_ptr[r + 1] - first;
    if (count > kLongRow) sum_long_row(columns + first, entries_from(first), count, x, width, out + r * width);
  }
}

template <class T>
void max_rows(int64_t rows, const int64_t* row_ptr, const int32_t* columns, const T* x, int64_t width, T* out,
              int32_t* winner) {
#pragma omp parallel for schedule(dynamic, 16)
  for (int64_t r = 0; r < rows; ++r) {
    T* best = out + r * width;
    int32_t* from = winner + r * width;
    std::fill(best, best + width, T(0));
    std::fill(from, from + width, -1);
    for (int64_t e = row_ptr[r]; e < row_ptr[r + 1]; ++e) {
      const T* row = x + columns[e] * width;
      for (int64_t k = 0; k < width; ++k) {
        const bool wins = from[k] < 0 || row[k] > best[k] || (std::isnan(row[k]) && !std::isnan(best[k]));
        best[k] = wins ? row[k] : best[k];
        from[k] = wins ? columns[e] : from[k];
      }
    }
  }
}

bool group_by_value(const int64_t* index, int64_t count, int64_t values, int64_t* row_ptr, int32_t* positions) {
  std::fill(row_ptr, row_ptr + values + 1, int64_t{0});
  for (int64_t i = 0; i < count; ++i) {
    if (index[i] < 0 || index[i] >= values) return false;
    ++row_ptr[index[i] + 1];
  }
  for (int64_t v = 0; v < values; ++v) row_ptr[v + 1] += row_ptr[v];
  std::vector<int64_t> next(row_ptr, row_ptr + values);
  for (int64_t i = 0; i < count; ++i) positions[next[static_cast<size_t>(index[i])]++] = static_cast<int32_t>(i);
  return true;
}

template void sum_rows<float>(int64_t, const int64_t*, const int32_t*, const float*, const float*, int64_t, float*);
template void sum_rows<double>(int64_t, const int64_t*, const int32_t*, const double*, const double*, int64_t, double*);
template void max_rows<float>(int64_t, const int64_t*, const int32_t*, const float*, int64_t, float*, int32_t*);
template void max_rows<double>(int64_t, const int64_t*, const int32_t*, const double*, int64_t, double*, int32_t*);

}  // namespace foretime::models
