#pragma once

#include <cstdint>

/// Plain loops behind csr_ops, on host memory, for float and double. Matrices of states are dense, row after row.
namespace foretime::models {

/// out[r] = sum over entries e of row r of values[e] * x[columns[e]]; `values` null stands for ones. `out` is
/// overwritten. Rows are independent, and a long row is cut into pieces of fixed length whose sums are added in order,
/// so the result does not depend on the number of threads.
template <class T>
void sum_rows(int64_t rows, const int64_t* row_ptr, const int32_t* columns, const T* values, const T* x, int64_t width,
              T* out);

/// out[r] = maximum over the entries of row r of x[columns[e]], 0 without entries; `winner` gets the row of x that it
/// came from, the first of equals, or -1. A NaN wins over all numbers.
template <class T>
void max_rows(int64_t rows, const int64_t* row_ptr, const int32_t* columns, const T* x, int64_t width, T* out,
              int32_t* winner);

/// Groups the positions of `index` by value: those of value v are positions[row_ptr[v]] … in ascending order. `row_ptr`
/// has values + 1 entries. False, with nothing promised, where an index is not in [0, values).
bool group_by_value(const int64_t* index, int64_t count, int64_t values, int64_t* row_ptr, int32_t* positions);

}  // namespace foretime::models
