#pragma once

/// Sparse-matrix kernels as functors that compute one item each. A GPU runs a functor for all items in parallel
/// (launch.cpp compiles this text with NVRTC); tests on the CPU run it in a loop. A functor writes only to the places
/// of its item, without atomics, so that results do not depend on the order of items. Sums use fused multiply-adds on
/// both, in an order that depends on the matrix alone.
///
/// NVRTC has no standard library; this file includes none for it.
#ifdef __CUDACC__
#define FORETIME_KERNEL __host__ __device__ __forceinline__
#else
#include <cmath>
#define FORETIME_KERNEL inline
#endif

namespace foretime::gpu {

/// Rows longer than kLongRow are reduced in pieces of kPiece entries; then the pieces' results are joined in order.
constexpr int kLongRow = 128;
constexpr int kPiece = 64;
constexpr int kMaxTerms = 8;

#ifdef __CUDACC__
FORETIME_KERNEL float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
FORETIME_KERNEL double multiply_add(double a, double b, double c) { return fma(a, b, c); }
FORETIME_KERNEL float exponential(float x) { return expf(x); }
FORETIME_KERNEL double exponential(double x) { return exp(x); }
FORETIME_KERNEL double square_root(double x) { return sqrt(x); }
#else
FORETIME_KERNEL float multiply_add(float a, float b, float c) { return std::fma(a, b, c); }
FORETIME_KERNEL double multiply_add(double a, double b, double c) { return std::fma(a, b, c); }
FORETIME_KERNEL float exponential(float x) { return std::exp(x); }
FORETIME_KERNEL double exponential(double x) { return std::exp(x); }
FORETIME_KERNEL double square_root(double x) { return std::sqrt(x); }
#endif

/// Holds V numbers that are loaded and stored at once, at addresses aligned to the pack.
template <class T, int V>
struct alignas(sizeof(T) * V) Pack {
  T at[V];
};

template <class T, int V>
FORETIME_KERNEL Pack<T, V> load(const T* from) {
  return *reinterpret_cast<const Pack<T, V>*>(from);
}
template <class T, int V>
FORETIME_KERNEL void store(T* to, const Pack<T, V>& pack) {
  *reinterpret_cast<Pack<T, V>*>(to) = pack;
}

/// Describes the rows of a matrix. A null `row_ptr` means one entry a row.
struct MatrixRows {
  const int* row_ptr = nullptr;    // [rows + 1]
  const int* columns = nullptr;    // [entries]
  const int* long_rows = nullptr;  // [long_count] ascending: rows longer than kLongRow that are reduced in pieces
  const int* piece_ptr = nullptr;  // [long_count + 1] the pieces of long row i are piece_ptr[i] … piece_ptr[i + 1] - 1
  const int* piece_rows = nullptr;  // [pieces] index in `long_rows` of each piece's row
  int long_count = 0;

  FORETIME_KERNEL int first(int row) const { return row_ptr ? row_ptr[row] : row; }
  FORETIME_KERNEL int last(int row) const { return row_ptr ? row_ptr[row + 1] : row + 1; }
  /// Returns the index of a row in `long_rows`, or -1 if one item reduces it.
  FORETIME_KERNEL int long_index(int row) const {
    int low = 0, high = long_count;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (long_rows[middle] < row) low = middle + 1;
      else high = middle;
    }
    return low < long_count && long_rows[low] == row ? low : -1;
  }
};

/// Reduces one piece of a long row of matrix `term` for Rows. Item = piece * lanes + lane. In a Reduction,
/// start() returns an empty result, take() adds an entry, merge() a partial result, and finish() writes a row's result.
template <class Reduction>
struct Pieces {
  Reduction reduction;
  int term = 0;

  FORETIME_KERNEL void operator()(int item) const {
    const int lanes = reduction.lanes, piece = item / lanes, lane = item - piece * lanes;
    const MatrixRows& rows = reduction.rows(term);
    const int which = rows.piece_rows[piece], row = rows.long_rows[which];
    const int first = rows.row_ptr[row] + (piece - rows.piece_ptr[which]) * kPiece;
    const int end = rows.row_ptr[row + 1], last = first + kPiece < end ? first + kPiece : end;
    auto sum = reduction.start();
    for (int e = first; e < last; ++e) reduction.take(sum, term, row, e, lane);
    reduction.pieces(term)[item] = sum;
  }
};

/// Reduces one row over the matrices of all terms. Item = row * lanes + lane. Pieces must run first for long rows.
template <class Reduction>
struct Rows {
  Reduction reduction;

  FORETIME_KERNEL void operator()(int item) const {
    const int lanes = reduction.lanes, row = item / lanes, lane = item - row * lanes;
    auto sum = reduction.start();
    for (int term = 0; term < reduction.term_count; ++term) {
      const MatrixRows& rows = reduction.rows(term);
      const int first = rows.first(row), last = rows.last(row);
      const int which = last - first > kLongRow ? rows.long_index(row) : -1;
      if (which < 0) {
        for (int e = first; e < last; ++e) reduction.take(sum, term, row, e, lane);
      } else {
        for (int piece = rows.piece_ptr[which]; piece < rows.piece_ptr[which + 1]; ++piece)
          reduction.merge(sum, reduction.pieces(term)[piece * lanes + lane]);
      }
    }
    reduction.finish(row, lane, sum);
  }
};

/// Base of reductions over one matrix. A lane is a column of the result, or several. V is the type of partial results.
template <class V>
struct OneMatrixReduction {
  using Value = V;
  MatrixRows matrix;
  Value* scratch = nullptr;  // [pieces, lanes] results of Pieces; null without long rows
  int term_count = 1, lanes = 0;

  FORETIME_KERNEL const MatrixRows& rows(int) const { return matrix; }
  FORETIME_KERNEL Value* pieces(int) const { return scratch; }
  /// Returns the offset of an element in a matrix [.., lanes].
  FORETIME_KERNEL long long at(int row, int lane) const { return row * static_cast<long long>(lanes) + lane; }
};

template <class T, int V>
FORETIME_KERNEL Pack<T, V> zeros() {
  Pack<T, V> zero;
  for (int v = 0; v < V; ++v) zero.at[v] = T(0);
  return zero;
}
template <class T, int V>
FORETIME_KERNEL void add_to(Pack<T, V>& sum, const Pack<T, V>& more) {
  for (int v = 0; v < V; ++v) sum.at[v] += more.at[v];
}
/// Adds factor * x to `sum`.
template <class T, int V>
FORETIME_KERNEL void add_to(Pack<T, V>& sum, T factor, const Pack<T, V>& x) {
  for (int v = 0; v < V; ++v) sum.at[v] = multiply_add(factor, x.at[v], sum.at[v]);
}

/// Computes inference::csr_sum: out[r] = epilogue(Σ over terms, Σ over entries e of row r of values[e] *
/// x[columns[e]]). A lane has V columns. With `accumulate` the previous content of `out` is added to the sum.
template <class T, int V>
struct CsrSum {
  using Value = Pack<T, V>;
  struct Term {
    MatrixRows rows;
    const T* values = nullptr;  // null: ones
    const T* x = nullptr;       // [cols, width]
    Value* pieces = nullptr;    // [pieces, lanes]
  };
  Term terms[kMaxTerms];
  int term_count = 0, lanes = 0;
  long long width = 0;
  const T* bias = nullptr;  // [width]; null: none
  T slope = T(1);           // factor of negative results
  bool accumulate = false;
  T* out = nullptr;  // [rows, width]

  FORETIME_KERNEL const MatrixRows& rows(int term) const { return terms[term].rows; }
  FORETIME_KERNEL Value* pieces(int term) const { return terms[term].pieces; }
  FORETIME_KERNEL Value start() const { return zeros<T, V>(); }
  FORETIME_KERNEL void take(Value& sum, int term, int, int e, int lane) const {
    const Term& t = terms[term];
    add_to(sum, t.values ? t.values[e] : T(1), load<T, V>(t.x + t.rows.columns[e] * width + lane * V));
  }
  FORETIME_KERNEL void merge(Value& sum, const Value& more) const { add_to(sum, more); }
  FORETIME_KERNEL void finish(int row, int lane, Value sum) const {
    T* to = out + row * width + lane * V;
    if (accumulate) merge(sum, load<T, V>(to));
    if (bias) merge(sum, load<T, V>(bias + lane * V));
    for (int v = 0; v < V; ++v) sum.at[v] = sum.at[v] < T(0) ? sum.at[v] * slope : sum.at[v];
    store<T, V>(to, sum);
  }
};

/// Holds the largest value so far, and where it is.
template <class T>
struct Best {
  T best;
  int winner;  // row of x; -1: no value yet
};

/// Computes inference::csr_max. A lane is a column.
template <class T>
struct CsrMax : OneMatrixReduction<Best<T>> {
  using Value = Best<T>;
  const T* x = nullptr;     // [cols, lanes]
  const T* mask = nullptr;  // [entries] 0: the entry is ignored; null: no entry is ignored
  T* out = nullptr;         // [rows, lanes]
  int* winner = nullptr;    // [rows, lanes] row of x of each maximum, or -1

  FORETIME_KERNEL Value start() const { return {T(0), -1}; }
  FORETIME_KERNEL void take(Value& best, int, int, int e, int lane) const {
    if (mask && mask[e] == T(0)) return;
    const int column = this->matrix.columns[e];
    merge(best, {x[this->at(column, lane)], column});
  }
  FORETIME_KERNEL void merge(Value& best, const Value& other) const {
    if (other.winner < 0) return;
    const bool nan = best.best != best.best, other_nan = other.best != other.best;
    if (best.winner < 0 || other.best > best.best || (other_nan && !nan)) best = other;
  }
  FORETIME_KERNEL void finish(int row, int lane, const Value& best) const {
    out[this->at(row, lane)] = best.best;
    winner[this->at(row, lane)] = best.winner;
  }
};

/// Computes inference::csr_max_gradient, where `matrix` is the transpose of CsrMax's. A lane is a column.
template <class T>
struct CsrMaxGradient : OneMatrixReduction<T> {
  const int* winner = nullptr;  // result of CsrMax
  const T* from = nullptr;      // gradient of CsrMax::out
  T* out = nullptr;             // gradient of CsrMax::x

  FORETIME_KERNEL T start() const { return T(0); }
  FORETIME_KERNEL void take(T& sum, int, int row, int e, int lane) const {
    const int r = this->matrix.columns[e];
    // A column that occurs twice in a row has won once.
    if (e > this->matrix.first(row) && this->matrix.columns[e - 1] == r) return;
    if (winner[this->at(r, lane)] == row) sum += from[this->at(r, lane)];
  }
  FORETIME_KERNEL void merge(T& sum, const T& more) const { sum += more; }
  FORETIME_KERNEL void finish(int row, int lane, const T& sum) const { out[this->at(row, lane)] = sum; }
};

/// Computes inference::weighted_sum. A lane has V columns of one head.
template <class T, int V>
struct WeightedSum : OneMatrixReduction<Pack<T, V>> {
  using Value = Pack<T, V>;
  const int* position = nullptr;  // [entries] index of an entry's weights; null: same as the entry
  const T* weights = nullptr;     // [entries, heads]
  const T* x = nullptr;           // [cols, heads * head_width]
  int heads = 0, head_width = 0;
  T* out = nullptr;  // [rows, heads * head_width]

  FORETIME_KERNEL Value start() const { return zeros<T, V>(); }
  FORETIME_KERNEL void take(Value& sum, int, int, int e, int lane) const {
    const T weight = weights[(position ? position[e] : e) * static_cast<long long>(heads) + lane * V / head_width];
    add_to(sum, weight, load<T, V>(x + this->at(this->matrix.columns[e], lane) * V));
  }
  FORETIME_KERNEL void merge(Value& sum, const Value& more) const { add_to(sum, more); }
  FORETIME_KERNEL void finish(int row, int lane, const Value& sum) const {
    store<T, V>(out + this->at(row, lane) * V, sum);
  }
};

/// Computes inference::entry_products: out[e, h] = a[row(e), h, :] · b[columns[e], h, :]. Item = entry * heads + head.
template <class T, int V>
struct EntryProducts {
  const int* entry_rows = nullptr;  // [entries] row of each entry
  const int* columns = nullptr;     // [entries]
  const T* a = nullptr;             // [rows, heads * head_width]
  const T* b = nullptr;             // [cols, heads * head_width]
  int heads = 0, head_width = 0;
  T* out = nullptr;  // [entries, heads]

  FORETIME_KERNEL void operator()(int item) const {
    const int e = item / heads, head = item - e * heads;
    const long long all = static_cast<long long>(heads) * head_width;
    const T* left = a + entry_rows[e] * all + head * head_width;
    const T* right = b + columns[e] * all + head * head_width;
    T sum = T(0);
    for (int k = 0; k < head_width; k += V) {
      const auto l = load<T, V>(left + k), r = load<T, V>(right + k);
      for (int v = 0; v < V; ++v) sum = multiply_add(l.at[v], r.at[v], sum);
    }
    out[item] = sum;
  }
};

/// Holds a partial result of EdgeSoftmaxSums: the largest logit so far, and the sum relative to it.
template <class T>
struct EdgeSoftmaxSum {
  T largest, sum;
  bool any;  // false: no entry yet
};

/// Computes for each row and head (lane) the largest logit and Σ m * exp(logit - largest), m > 0 the multiplicity.
template <class T>
struct EdgeSoftmaxSums : OneMatrixReduction<EdgeSoftmaxSum<T>> {
  using Value = EdgeSoftmaxSum<T>;
  const T* multiplicity = nullptr;  // [entries]; null: ones
  const T* logits = nullptr;        // [entries, heads]
  T* largest = nullptr;             // [rows, heads]
  T* sums = nullptr;                // [rows, heads]

  FORETIME_KERNEL Value start() const { return {T(0), T(0), false}; }
  FORETIME_KERNEL void take(Value& sum, int, int, int e, int lane) const {
    const T m = multiplicity ? multiplicity[e] : T(1);
    if (m != T(0)) merge(sum, {logits[this->at(e, lane)], m, true});
  }
  FORETIME_KERNEL void merge(Value& sum, const Value& more) const {
    if (!more.any) return;
    if (!sum.any) {
      sum = more;
    } else if (more.largest > sum.largest) {
      sum = {more.largest, multiply_add(sum.sum, exponential(sum.largest - more.largest), more.sum), true};
    } else {
      sum.sum = multiply_add(more.sum, exponential(more.largest - sum.largest), sum.sum);
    }
  }
  FORETIME_KERNEL void finish(int row, int lane, const Value& sum) const {
    largest[this->at(row, lane)] = sum.largest;
    sums[this->at(row, lane)] = sum.sum;
  }
};

/// Computes inference::edge_softmax; must follow EdgeSoftmaxSums. Item = entry * heads + head.
template <class T>
struct EdgeSoftmax {
  const int* entry_rows = nullptr;  // [entries] row of each entry
  const T* multiplicity = nullptr;  // [entries]; null: ones
  const T* logits = nullptr;        // [entries, heads]
  const T* largest = nullptr;       // [rows, heads] from EdgeSoftmaxSums
  const T* sums = nullptr;          // [rows, heads] from EdgeSoftmaxSums
  int heads = 0;
  T* weights = nullptr;  // [entries, heads] result

  FORETIME_KERNEL void operator()(int item) const {
    const int e = item / heads;
    const long long at = entry_rows[e] * static_cast<long long>(heads) + (item - e * heads);
    const T m = multiplicity ? multiplicity[e] : T(1);
    weights[item] = m == T(0) || sums[at] == T(0) ? T(0) : m * exponential(logits[item] - largest[at]) / sums[at];
  }
};

/// Computes Σ weights * from for each row and head (lane), for the gradient of the softmax.
template <class T>
struct EdgeSoftmaxShares : OneMatrixReduction<T> {
  const T* weights = nullptr;  // [entries, heads] result of EdgeSoftmax
  const T* from = nullptr;     // [entries, heads] gradient of `weights`
  T* out = nullptr;            // [rows, heads]

  FORETIME_KERNEL T start() const { return T(0); }
  FORETIME_KERNEL void take(T& sum, int, int, int e, int lane) const {
    sum = multiply_add(weights[this->at(e, lane)], from[this->at(e, lane)], sum);
  }
  FORETIME_KERNEL void merge(T& sum, const T& more) const { sum += more; }
  FORETIME_KERNEL void finish(int row, int lane, const T& sum) const { out[this->at(row, lane)] = sum; }
};

/// Computes inference::edge_softmax_gradient; must follow EdgeSoftmaxShares. Item = entry * heads + head.
template <class T>
struct EdgeSoftmaxGradient {
  const int* entry_rows = nullptr;  // [entries] row of each entry
  const T* weights = nullptr;       // [entries, heads] result of EdgeSoftmax
  const T* from = nullptr;          // [entries, heads] gradient of `weights`
  const T* shares = nullptr;        // [rows, heads] from EdgeSoftmaxShares
  int heads = 0;
  T* to = nullptr;  // [entries, heads] gradient of the logits

  FORETIME_KERNEL void operator()(int item) const {
    const int e = item / heads;
    to[item] = weights[item] * (from[item] - shares[entry_rows[e] * static_cast<long long>(heads) + item - e * heads]);
  }
};

/// Computes the gradient of an activation: to[i] = output[i] > 0 ? from[i] : slope * from[i]. Item = i.
template <class T>
struct ActivationGradient {
  const T* output = nullptr;  // result of the activation
  const T* from = nullptr;    // gradient of `output`
  T slope = T(1);             // factor of negative numbers in the activation
  T* to = nullptr;            // gradient before the activation; may be `from`

  FORETIME_KERNEL void operator()(int item) const { to[item] = output[item] > T(0) ? from[item] : from[item] * slope; }
};

/// Finds the row of each entry of a matrix. Item = entry.
struct EntryRows {
  const int* row_ptr = nullptr;  // [rows + 1]
  int rows = 0;
  int* out = nullptr;  // [entries]

  FORETIME_KERNEL void operator()(int item) const {
    int low = 0, high = rows;  // [low, high) contains the last row that begins at or before the entry
    while (high - low > 1) {
      const int middle = low + (high - low) / 2;
      if (row_ptr[middle] <= item) low = middle;
      else high = middle;
    }
    out[item] = low;
  }
};

#ifdef __CUDACC__
/// Runs a functor as a kernel.
template <class Body>
__global__ void for_each(const __grid_constant__ Body functor, int items) {
  const long long item = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (item < items) functor(static_cast<int>(item));
}
#endif

}  // namespace foretime::gpu
