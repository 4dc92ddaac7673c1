#pragma once

#include <cstdint>

/// Loops of models/sparse on host memory, for float and double. Matrices of states are dense and row-major. Rows are
/// independent, and sums have an order that depends on the matrix alone, so that results do not depend on the number of
/// threads.
namespace foretime::inference {

/// Describes one sparse matrix and the dense matrix that it is multiplied by.
template <class T>
struct CsrTerm {
  const int64_t* row_ptr = nullptr;  // [rows + 1]; null: one entry a row
  const int32_t* columns = nullptr;
  const T* values = nullptr;  // null: ones
  const T* x = nullptr;       // [cols, width]
};

/// Describes the operations after a sum, element by element: x + bias[k], then slope * x if that is negative.
template <class T>
struct Epilogue {
  const T* bias = nullptr;  // [width]; null: none
  T slope = T(1);           // 1: no activation; 0: ReLU
};

/// Computes out[r] = epilogue(sum over terms, over entries e of row r, of values[e] * x[columns[e]]). `out` is
/// overwritten. A long row is cut into pieces of fixed length whose sums are added in order, so that the result does
/// not depend on the number of threads.
template <class T>
void csr_sum(int64_t rows, const CsrTerm<T>* terms, int64_t term_count, const Epilogue<T>& epilogue, int64_t width,
             T* out);

/// Computes out[r] = maximum over the entries of row r of x[columns[e]], 0 without entries. `winner` gets the row of x
/// of each maximum, the first of equals, or -1. A NaN wins over all numbers.
template <class T>
void csr_max(int64_t rows, const int64_t* row_ptr, const int32_t* columns, const T* x, int64_t width, T* out,
             int32_t* winner);

/// Computes the gradient of csr_max: to[c] = sum of from[r] over the rows r whose `winner` is c. The matrix is the
/// transposed one, so that the rows c are independent.
template <class T>
void csr_max_gradient(int64_t cols, const int64_t* transposed_row_ptr, const int32_t* transposed_columns,
                      const int32_t* winner, const T* from, int64_t width, T* to);

/// Computes the gradient of Epilogue's activation, in place: gradient[r] *= slope where output[r] is not positive.
template <class T>
void activation_gradient(int64_t count, const T* output, T slope, T* gradient);

/// Describes the entries of a sparse matrix, by rows.
struct EntryRows {
  int64_t rows = 0;
  const int64_t* row_ptr = nullptr;   // [rows + 1]
  const int32_t* columns = nullptr;   // [entries]
  const int32_t* position = nullptr;  // [entries] index of an entry's values; null: same as the entry
};

/// Computes out[r, h, :] = sum over entries e of row r of weights[position(e), h] * x[columns[e], h, :].
///   weights [entries, heads], x [cols, heads * width], out [rows, heads * width], overwritten
template <class T>
void weighted_sum(const EntryRows& matrix, const T* weights, const T* x, int64_t heads, int64_t width, T* out);

/// Computes out[e, h] = a[row(e), h, :] · b[columns[e], h, :].
template <class T>
void entry_products(const EntryRows& matrix, const T* a, const T* b, int64_t heads, int64_t width, T* out);

/// Computes weights[e, h] = m[e] exp(logits[e, h]) / sum over the row's entries of the same, m = multiplicity (null:
/// 1). A row whose multiplicities are all 0 gets weights 0.
template <class T>
void edge_softmax(const EntryRows& matrix, const T* multiplicity, const T* logits, int64_t heads, T* weights);

/// Computes the gradient of edge_softmax: to[e, h] = weights[e, h] * (from[e, h] - sum over the row of weights * from).
template <class T>
void edge_softmax_gradient(const EntryRows& matrix, const T* weights, const T* from, int64_t heads, T* to);

/// Computes for each entry of the transposed matrix its index in the matrix. Transposed rows must be in the order of
/// the matrix's rows, as in data::transpose.
void transposed_positions(const EntryRows& matrix, int64_t cols, const int64_t* transposed_row_ptr, int32_t* position);

}  // namespace foretime::inference
