#pragma once

#include <cstdint>

/// Plain loops behind edge_ops, on host memory, for float and double: sparse matrices whose values are learned, one for
/// each entry and head. Rows are independent, and sums are taken in the order of the entries, so results do not depend
/// on the number of threads.
namespace foretime::inference {

/// The entries of a sparse matrix, by rows.
struct EntryRows {
  int64_t rows = 0;
  const int64_t* row_ptr = nullptr;   // [rows + 1]
  const int32_t* columns = nullptr;   // [entries]
  const int32_t* position = nullptr;  // [entries] where an entry's values stand; null: in the order of the entries
};

/// out[r, h, :] = sum over entries e of row r of weights[position(e), h] * x[columns[e], h, :].
///   weights [entries, heads], x [cols, heads * width], out [rows, heads * width], overwritten
template <class T>
void weighted_rows(const EntryRows& matrix, const T* weights, const T* x, int64_t heads, int64_t width, T* out);

/// out[e, h] = a[row(e), h, :] · b[columns[e], h, :].
template <class T>
void entry_dots(const EntryRows& matrix, const T* a, const T* b, int64_t heads, int64_t width, T* out);

/// weights[e, h] = m[e] exp(logits[e, h]) / sum over the row's entries of the same, m = multiplicity (null: 1). A row
/// whose multiplicities are all 0 gets weights 0.
template <class T>
void softmax_rows(const EntryRows& matrix, const T* multiplicity, const T* logits, int64_t heads, T* weights);

/// Its gradient: to[e, h] = weights[e, h] * (from[e, h] - sum over the row of weights * from).
template <class T>
void softmax_rows_gradient(const EntryRows& matrix, const T* weights, const T* from, int64_t heads, T* to);

/// position[i] of entry i of the transposed matrix: which entry of the matrix it is. Transposed rows must be in the
/// order of the matrix's rows, as data::transpose makes them.
void transposed_positions(const EntryRows& matrix, int64_t cols, const int64_t* transposed_row_ptr, int32_t* position);

}  // namespace foretime::inference
