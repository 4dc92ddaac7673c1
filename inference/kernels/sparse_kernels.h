#pragma once

#include <cstdint>

/// Loops of models/sparse on host memory, for float and double. Matrices of states are dense and row-major. Rows are
/// independent, and sums have an order that depends on the matrix alone, so that results do not depend on the number of
/// threads.
namespace foretime::inference {

/// Describes a sparse matrix [rows, cols] and the dense matrix that it is multiplied by.
template <class T>
struct CsrTerm {
  const int64_t* row_ptr = nullptr;  // [rows + 1] first entry of each row; null: one entry in each row
  const int32_t* columns = nullptr;  // [entries] column of each entry
  const T* values = nullptr;         // [entries] value of each entry; null: all values are 1
  const T* x = nullptr;              // [cols, width]
};

/// Describes what follows a sum, element by element: adds bias[k], then multiplies a negative number by `slope`.
template <class T>
struct Epilogue {
  const T* bias = nullptr;  // [width]; null: no bias
  T slope = T(1);           // 1: no activation; 0: ReLU
};

/// Computes out[r] = epilogue(sum over terms, over entries e of row r, of values[e] * x[columns[e]]); out [rows, width]
/// is overwritten. A long row is cut into pieces of fixed length whose sums are added in order, so that the result does
/// not depend on the number of threads.
template <class T>
void csr_sum(int64_t rows, const CsrTerm<T>* terms, int64_t term_count, const Epilogue<T>& epilogue, int64_t width,
             T* out);

/// Computes out[r] = maximum over the entries of row r of x[columns[e]], column by column. `winner` [rows, width] gets
/// the row of x that has the maximum, the first of equal ones. A row without entries gets 0 and -1. NaN is the largest.
template <class T>
void csr_max(int64_t rows, const int64_t* row_ptr, const int32_t* columns, const T* x, int64_t width, T* out,
             int32_t* winner);

/// Computes the gradient of csr_max: to[c] = sum of from[r] over the rows r whose `winner` is c, column by column.
/// Takes the entries of the transposed matrix, by its rows c. to [cols, width] is overwritten.
template <class T>
void csr_max_gradient(int64_t cols, const int64_t* transposed_row_ptr, const int32_t* transposed_columns,
                      const int32_t* winner, const T* from, int64_t width, T* to);

/// Computes the gradient of Epilogue's activation, in place: gradient[i] *= slope where output[i] is not positive.
template <class T>
void activation_gradient(int64_t count, const T* output, T slope, T* gradient);

/// Describes the entries of a sparse matrix, by rows.
struct EntryRows {
  int64_t rows = 0;
  const int64_t* row_ptr = nullptr;   // [rows + 1] first entry of each row
  const int32_t* columns = nullptr;   // [entries] column of each entry
  const int32_t* position = nullptr;  // [entries] index of each entry in arrays of entry values; null: 0, 1, 2, …
};

/// Computes out[r, h, :] = sum over entries e of row r of weights[position(e), h] * x[columns[e], h, :].
///   weights [entries, heads], x [cols, heads * width], out [rows, heads * width], overwritten
template <class T>
void weighted_sum(const EntryRows& matrix, const T* weights, const T* x, int64_t heads, int64_t width, T* out);

/// Computes out[position(e), h] = a[row(e), h, :] · b[columns[e], h, :]; shapes as in weighted_sum.
template <class T>
void entry_products(const EntryRows& matrix, const T* a, const T* b, int64_t heads, int64_t width, T* out);

/// Computes weights[e, h] = m[e] exp(logits[e, h]) / sum over the row's entries of the same, m = multiplicity (null:
/// 1). A row whose multiplicities are all 0 gets weights 0. Ignores matrix.position.
template <class T>
void edge_softmax(const EntryRows& matrix, const T* multiplicity, const T* logits, int64_t heads, T* weights);

/// Computes the gradient of edge_softmax: to[e, h] = weights[e, h] * (from[e, h] - sum over the row of weights * from).
template <class T>
void edge_softmax_gradient(const EntryRows& matrix, const T* weights, const T* from, int64_t heads, T* to);

/// Sets position[t], for each entry t of the transposed matrix, to the index of the same entry in `matrix`. The entries
/// of each transposed row must be in the order of the rows of `matrix`, as in data::transpose.
void transposed_positions(const EntryRows& matrix, int64_t cols, const int64_t* transposed_row_ptr, int32_t* position);

}  // namespace foretime::inference
