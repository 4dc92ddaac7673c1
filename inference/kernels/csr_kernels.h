#pragma once

#include <cstdint>

/// Plain loops behind csr_ops, on host memory, for float and double. Matrices of states are dense, row after row.
namespace foretime::inference {

/// One sparse matrix and what it is multiplied with.
template <class T>
struct CsrTerm {
  const int64_t* row_ptr = nullptr;  // [rows + 1]; null: one entry a row
  const int32_t* columns = nullptr;
  const T* values = nullptr;  // null: ones
  const T* x = nullptr;       // [cols, width]
};

/// What follows a sum, element by element: x + bias[k], then slope * x where that is negative.
template <class T>
struct Epilogue {
  const T* bias = nullptr;  // [width]; null: none
  T slope = T(1);           // 1: no activation; 0: ReLU
};

/// out[r] = epilogue(sum over terms, over entries e of row r, of values[e] * x[columns[e]]). `out` is overwritten. Rows
/// are independent, and a long row is cut into pieces of fixed length whose sums are added in order, so the result does
/// not depend on the number of threads.
template <class T>
void sum_terms(int64_t rows, const CsrTerm<T>* terms, int64_t term_count, const Epilogue<T>& epilogue, int64_t width,
               T* out);

/// out[r] = maximum over the entries of row r of x[columns[e]], 0 without entries; `winner` gets the row of x that it
/// came from, the first of equals, or -1. A NaN wins over all numbers.
template <class T>
void max_rows(int64_t rows, const int64_t* row_ptr, const int32_t* columns, const T* x, int64_t width, T* out,
              int32_t* winner);

/// The gradient of max_rows: to[c] = sum, over the rows r where `winner` names c, of from[r]. The matrix is the
/// transposed one, so that the rows c are independent.
template <class T>
void max_rows_gradient(int64_t cols, const int64_t* transposed_row_ptr, const int32_t* transposed_columns,
                       const int32_t* winner, const T* from, int64_t width, T* to);

/// gradient[r] *= slope where output[r] is not positive: the gradient of Epilogue's activation, in place.
template <class T>
void scale_negative(int64_t count, const T* output, T slope, T* gradient);

}  // namespace foretime::inference
