#include "inference/kernels/sparse_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace foretime::inference {
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
[[gnu::always_inline]] inline void sum_row_body(const CsrTerm<T>* terms, int64_t term_count, int64_t r,
                                                const Epilogue<T>& epilogue, int64_t width, T* out) {
  for (int64_t start = 0; start < width; start += kColumnBlock) {
    T sum[kColumnBlock] = {};
    const int64_t columns = std::min(kColumnBlock, width - start);
    for (int64_t t = 0; t < term_count; ++t) {
      const CsrTerm<T>& term = terms[t];
      const int64_t first = term.row_ptr ? term.row_ptr[r] : r, last = term.row_ptr ? term.row_ptr[r + 1] : r + 1;
      for (int64_t e = first; e < last; ++e) {
        const T* row = term.x + term.columns[e] * width + start;
        const T value = term.values ? term.values[e] : T(1);
        // The whole block by vectors of known number; what is left over one by one.
        if (columns == kColumnBlock) {
          for (int64_t k = 0; k < kColumnBlock; ++k) sum[k] += value * row[k];
        } else {
          for (int64_t k = 0; k < columns; ++k) sum[k] += value * row[k];
        }
      }
    }
    for (int64_t k = 0; k < columns; ++k) {
      T x = sum[k];
      if (epilogue.bias) x += epilogue.bias[start + k];
      out[start + k] = x < T(0) ? x * epilogue.slope : x;
    }
  }
}

FORETIME_MULTIVERSION void sum_row(const CsrTerm<float>* terms, int64_t term_count, int64_t r,
                                   const Epilogue<float>& epilogue, int64_t width, float* out) {
  sum_row_body(terms, term_count, r, epilogue, width, out);
}

FORETIME_MULTIVERSION void sum_row(const CsrTerm<double>* terms, int64_t term_count, int64_t r,
                                   const Epilogue<double>& epilogue, int64_t width, double* out) {
  sum_row_body(terms, term_count, r, epilogue, width, out);
}

/// One row by all threads: each term's row in pieces, whose sums are added in order.
template <class T>
void sum_long_row(const CsrTerm<T>* terms, int64_t term_count, int64_t r, const Epilogue<T>& epilogue, int64_t width,
                  T* out) {
  std::vector<T> total(width);
  for (int64_t t = 0; t < term_count; ++t) {
    const CsrTerm<T>& term = terms[t];
    const int64_t first = term.row_ptr ? term.row_ptr[r] : r, last = term.row_ptr ? term.row_ptr[r + 1] : r + 1;
    const int64_t pieces = (last - first + kPiece - 1) / kPiece;
    std::vector<T> sums(pieces * width);
    std::vector<int64_t> bounds(pieces + 1, last);
    for (int64_t p = 0; p < pieces; ++p) bounds[p] = first + p * kPiece;
#pragma omp parallel for schedule(static)
    for (int64_t p = 0; p < pieces; ++p) {
      const CsrTerm<T> piece{bounds.data(), term.columns, term.values, term.x};
      sum_row(&piece, 1, p, Epilogue<T>{}, width, sums.data() + p * width);
    }
    for (int64_t p = 0; p < pieces; ++p)
      for (int64_t k = 0; k < width; ++k) total[k] += sums[p * width + k];
  }
  for (int64_t k = 0; k < width; ++k) {
    const T x = total[k] + (epilogue.bias ? epilogue.bias[k] : T(0));
    out[k] = x < T(0) ? x * epilogue.slope : x;
  }
}

constexpr int64_t kSmallEdgeWork = 1 << 14;  // multiplications below which threads cost more than they save

int64_t at_once(int64_t rows) { return std::clamp<int64_t>(rows / 64, 1, 256); }

}  // namespace

template <class T>
void csr_sum(int64_t rows, const CsrTerm<T>* terms, int64_t term_count, const Epilogue<T>& epilogue, int64_t width,
             T* out) {
  const auto entries_of = [&](int64_t r) {
    int64_t count = 0;
    for (int64_t t = 0; t < term_count; ++t)
      count += terms[t].row_ptr ? terms[t].row_ptr[r + 1] - terms[t].row_ptr[r] : 1;
    return count;
  };
  int64_t work = rows;
  for (int64_t t = 0; t < term_count; ++t) work += terms[t].row_ptr ? terms[t].row_ptr[rows] : rows;
  const bool small = work * width < kSmallWork;
  // Small numbers of rows, as in a readout, usually mean long rows: each is scheduled separately.
  const int64_t turn = std::clamp<int64_t>(rows / 64, 1, 256);
  bool any_long = false;
#pragma omp parallel for schedule(dynamic, turn) reduction(|| : any_long) if (!small)
  for (int64_t r = 0; r < rows; ++r) {
    if (entries_of(r) <= kLongRow) sum_row(terms, term_count, r, epilogue, width, out + r * width);
    else any_long = true;
  }
  for (int64_t r = 0; any_long && r < rows; ++r)
    if (entries_of(r) > kLongRow) sum_long_row(terms, term_count, r, epilogue, width, out + r * width);
}

template <class T>
void activation_gradient(int64_t count, const T* output, T slope, T* gradient) {
#pragma omp parallel for schedule(static) if (count > kSmallWork)
  for (int64_t i = 0; i < count; ++i) gradient[i] *= output[i] > T(0) ? T(1) : slope;
}

template <class T>
void csr_max(int64_t rows, const int64_t* row_ptr, const int32_t* columns, const T* x, int64_t width, T* out,
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

template <class T>
void csr_max_gradient(int64_t cols, const int64_t* transposed_row_ptr, const int32_t* transposed_columns,
                      const int32_t* winner, const T* from, int64_t width, T* to) {
#pragma omp parallel for schedule(dynamic, 64)
  for (int64_t c = 0; c < cols; ++c) {
    T* sum = to + c * width;
    std::fill(sum, sum + width, T(0));
    int64_t before = -1;  // a column that stands twice in a row has won once
    for (int64_t e = transposed_row_ptr[c]; e < transposed_row_ptr[c + 1]; ++e) {
      const int64_t r = transposed_columns[e];
      for (int64_t k = 0; r != before && k < width; ++k)
        if (winner[r * width + k] == c) sum[k] += from[r * width + k];
      before = r;
    }
  }
}

template void csr_max_gradient<float>(int64_t, const int64_t*, const int32_t*, const int32_t*, const float*, int64_t,
                                      float*);
template void csr_max_gradient<double>(int64_t, const int64_t*, const int32_t*, const int32_t*, const double*, int64_t,
                                       double*);
template void csr_sum<float>(int64_t, const CsrTerm<float>*, int64_t, const Epilogue<float>&, int64_t, float*);
template void csr_sum<double>(int64_t, const CsrTerm<double>*, int64_t, const Epilogue<double>&, int64_t, double*);
template void activation_gradient<float>(int64_t, const float*, float, float*);
template void activation_gradient<double>(int64_t, const double*, double, double*);
template void csr_max<float>(int64_t, const int64_t*, const int32_t*, const float*, int64_t, float*, int32_t*);
template void csr_max<double>(int64_t, const int64_t*, const int32_t*, const double*, int64_t, double*, int32_t*);

template <class T>
void weighted_sum(const EntryRows& matrix, const T* weights, const T* x, int64_t heads, int64_t width, T* out) {
  const int64_t all = heads * width, rows = matrix.rows;
  const bool small = matrix.row_ptr[rows] * all < kSmallEdgeWork;
#pragma omp parallel for schedule(dynamic, at_once(rows)) if (!small)
  for (int64_t r = 0; r < rows; ++r) {
    T* sum = out + r * all;
    std::fill(sum, sum + all, T(0));
    for (int64_t e = matrix.row_ptr[r]; e < matrix.row_ptr[r + 1]; ++e) {
      const T* weight = weights + (matrix.position ? matrix.position[e] : e) * heads;
      const T* row = x + matrix.columns[e] * all;
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t k = 0; k < width; ++k) sum[h * width + k] += weight[h] * row[h * width + k];
    }
  }
}

template <class T>
void entry_products(const EntryRows& matrix, const T* a, const T* b, int64_t heads, int64_t width, T* out) {
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
void edge_softmax(const EntryRows& matrix, const T* multiplicity, const T* logits, int64_t heads, T* weights) {
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
void edge_softmax_gradient(const EntryRows& matrix, const T* weights, const T* from, int64_t heads, T* to) {
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
  for (int64_t e = 0; e < matrix.row_ptr[matrix.rows]; ++e) position[next[matrix.columns[e]]++] = e;
}

template void weighted_sum<float>(const EntryRows&, const float*, const float*, int64_t, int64_t, float*);
template void weighted_sum<double>(const EntryRows&, const double*, const double*, int64_t, int64_t, double*);
template void entry_products<float>(const EntryRows&, const float*, const float*, int64_t, int64_t, float*);
template void entry_products<double>(const EntryRows&, const double*, const double*, int64_t, int64_t, double*);
template void edge_softmax<float>(const EntryRows&, const float*, const float*, int64_t, float*);
template void edge_softmax<double>(const EntryRows&, const double*, const double*, int64_t, double*);
template void edge_softmax_gradient<float>(const EntryRows&, const float*, const float*, int64_t, float*);
template void edge_softmax_gradient<double>(const EntryRows&, const double*, const double*, int64_t, double*);

}  // namespace foretime::inference
