#pragma once

/// Kernel functors for TopK pooling of concatenated graphs, to be run in the order of this file. The rule is in
/// models/autograd/top_nodes.cpp, and inference::choose_nodes applies it on the host. NVRTC compiles the text of
/// sparse_kernels.h before this file. The host knows the number of kept nodes and does not wait.
#ifndef __CUDACC_RTC__
#include "models/gpu/sparse_kernels.h"
#endif

namespace foretime::gpu {

#ifdef __CUDACC__
FORETIME_KERNEL double round_up(double x) { return ceil(x); }
#else
FORETIME_KERNEL double round_up(double x) { return std::ceil(x); }
#endif

/// Returns the number of nodes that a graph of `nodes` nodes keeps; copy of inference::kept_nodes.
FORETIME_KERNEL int kept_of(int nodes, double ratio) {
  const double wanted = nodes * ratio;
  const int kept = int(round_up(wanted * (1 - 1e-9)));
  const int least = nodes < 1 ? nodes : 1;
  return kept < least ? least : kept > nodes ? nodes : kept;
}

/// Describes the nodes of each graph: those of graph g are ptr[g] … ptr[g + 1] - 1.
struct GraphNodes {
  const int* ptr = nullptr;       // [graphs + 1]
  const int* graph_of = nullptr;  // [nodes]
};

/// Computes the offset of each graph's kept nodes, and the number of these nodes. Item = graph, or `graphs`.
template <class T>
struct KeptPointers {
  const int* ptr = nullptr;  // [graphs + 1] as GraphNodes::ptr
  int graphs = 0;
  double ratio = 1;
  int* kept_ptr = nullptr;  // [graphs + 1]
  T* counts = nullptr;      // [graphs] number of kept nodes

  FORETIME_KERNEL void operator()(int item) const {
    int before = 0;
    for (int g = 0; g < item; ++g) before += kept_of(ptr[g + 1] - ptr[g], ratio);
    kept_ptr[item] = before;
    if (item < graphs) counts[item] = T(kept_of(ptr[item + 1] - ptr[item], ratio));
  }
};

/// Computes each node's place in its graph by descending score; equal scores keep their order. Item = node.
template <class T>
struct ScorePlaces {
  GraphNodes graphs;
  const T* scores = nullptr;
  double lowest = 0;         // -∞, the value of a score that is NaN
  int* places = nullptr;     // [nodes] place of each node in its graph by descending score, from 0
  double* sorted = nullptr;  // [nodes] scores of each graph, descending

  FORETIME_KERNEL double score(int node) const {
    const double value = double(scores[node]);
    return value != value ? lowest : value;
  }
  FORETIME_KERNEL void operator()(int item) const {
    const int graph = graphs.graph_of[item], first = graphs.ptr[graph], end = graphs.ptr[graph + 1];
    const double own = score(item);
    int place = 0;
    for (int i = first; i < end; ++i) {
      const double other = score(i);
      if (other > own || (other == own && i < item)) ++place;
    }
    places[item] = place;
    sorted[first + place] = own;
  }
};

/// Finds the places of nodes tied with the last kept and the first dropped one; earlier places are kept. Item = graph.
struct TieSpans {
  const int* ptr = nullptr;        // [graphs + 1] as GraphNodes::ptr
  const int* kept_ptr = nullptr;   // [graphs + 1] from KeptPointers
  const double* sorted = nullptr;  // [nodes] from ScorePlaces
  double tie_part = 0;             // fraction of the largest score below which a difference is a tie
  // [graphs] the tied nodes of a graph have places begin … end - 1 by descending score; empty range: no ties
  int* begin = nullptr;
  int* end = nullptr;

  FORETIME_KERNEL void operator()(int item) const {
    const int nodes = ptr[item + 1] - ptr[item], count = kept_ptr[item + 1] - kept_ptr[item];
    int from = count, to = count;
    if (count < nodes) {
      const double* s = sorted + ptr[item];
      const double high = s[0] < 0 ? -s[0] : s[0], low = s[nodes - 1] < 0 ? -s[nodes - 1] : s[nodes - 1];
      const double tie = tie_part * (high > low ? high : low);
      while (from > 0 && !(s[from - 1] - s[from] > tie)) --from;
      if (from < count)
        while (to < nodes && !(s[to - 1] - s[to] > tie)) ++to;
    }
    begin[item] = from;
    end[item] = to;
  }
};

/// Computes whether each node is kept; of tied nodes the first ones are kept. Item = node.
struct ChosenNodes {
  GraphNodes graphs;
  const int* kept_ptr = nullptr;  // [graphs + 1] from KeptPointers
  const int* places = nullptr;    // [nodes] from ScorePlaces
  const int* begin = nullptr;     // [graphs] from TieSpans
  const int* end = nullptr;       // [graphs] from TieSpans
  int* stays = nullptr;           // [nodes] 0 or 1

  FORETIME_KERNEL void operator()(int item) const {
    const int graph = graphs.graph_of[item], place = places[item], from = begin[graph], to = end[graph];
    int chosen = place < from ? 1 : 0;
    if (place >= from && place < to) {
      int earlier = 0;
      for (int i = graphs.ptr[graph]; i < item; ++i) earlier += places[i] >= from && places[i] < to ? 1 : 0;
      chosen = earlier < kept_ptr[graph + 1] - kept_ptr[graph] - from ? 1 : 0;
    }
    stays[item] = chosen;
  }
};

/// Computes the number of kept nodes before each node, and lists the kept nodes. Item = node, or `nodes`.
struct KeptPlaces {
  GraphNodes graphs;
  int nodes = 0, kept_count = 0;
  const int* kept_ptr = nullptr;  // [graphs + 1] from KeptPointers
  const int* stays = nullptr;     // [nodes] from ChosenNodes
  int* before = nullptr;          // [nodes + 1] number of kept nodes before each node
  int* kept = nullptr;            // [kept] nodes, ascending
  int* kept_graph = nullptr;      // [kept] graph of each kept node

  FORETIME_KERNEL void operator()(int item) const {
    if (item == nodes) {
      before[item] = kept_count;
      return;
    }
    const int graph = graphs.graph_of[item];
    int place = kept_ptr[graph];
    for (int i = graphs.ptr[graph]; i < item; ++i) place += stays[i];
    before[item] = place;
    if (stays[item] == 0) return;
    kept[place] = item;
    kept_graph[place] = graph;
  }
};

/// Describes a matrix between nodes, and the nodes that are kept.
template <class T>
struct Restriction {
  MatrixRows from;
  const T* values = nullptr;                                       // null: ones
  const int *kept = nullptr, *stays = nullptr, *before = nullptr;  // see KeptPlaces
};

/// Counts the entries of each kept row whose column is kept. Item = number of the kept row; counts[0] becomes 0.
template <class T>
struct KeptEntryCounts {
  Restriction<T> restriction;
  int* counts = nullptr;  // [kept + 1] counts[i + 1]: remaining entries of kept row i

  FORETIME_KERNEL void operator()(int item) const {
    const int row = restriction.kept[item];
    int count = 0;
    for (int e = restriction.from.first(row); e < restriction.from.last(row); ++e)
      count += restriction.stays[restriction.from.columns[e]];
    counts[item + 1] = count;
    if (item == 0) counts[0] = 0;
  }
};

/// Copies the entries between kept nodes, with columns renumbered. Item = number of the kept row.
template <class T>
struct KeptEntries {
  Restriction<T> restriction;
  const int* row_ptr = nullptr;  // [kept + 1] cumulative sums of KeptEntryCounts::counts
  // [entries of `restriction.from`]: only the first row_ptr[kept] elements are written
  int* columns = nullptr;
  T* values = nullptr;

  FORETIME_KERNEL void operator()(int item) const {
    const int row = restriction.kept[item];
    int to = row_ptr[item];
    for (int e = restriction.from.first(row); e < restriction.from.last(row); ++e) {
      const int column = restriction.from.columns[e];
      if (restriction.stays[column] == 0) continue;
      columns[to] = restriction.before[column];
      values[to] = restriction.values ? restriction.values[e] : T(1);
      ++to;
    }
  }
};

/// Computes the power -1/2 of the sum of each row's values. Item = row.
template <class T>
struct DegreeRoots {
  MatrixRows rows;
  const T* values = nullptr;  // null: ones
  T* out = nullptr;           // [rows]

  FORETIME_KERNEL void operator()(int item) const {
    T sum = T(0);
    for (int e = rows.first(item); e < rows.last(item); ++e) sum += values ? values[e] : T(1);
    out[item] = T(1 / square_root(double(sum)));
  }
};

/// Computes out[e] = values[e] * roots[row of e] * roots[column of e] for the entries of each row. Item = row.
template <class T>
struct NormalizedValues {
  MatrixRows rows;
  const T* values = nullptr;  // null: ones
  const T* roots = nullptr;   // [rows] result of DegreeRoots
  T* out = nullptr;           // [entries]; elements beyond the last row's entries are not written

  FORETIME_KERNEL void operator()(int item) const {
    for (int e = rows.first(item); e < rows.last(item); ++e)
      out[e] = (values ? values[e] : T(1)) * roots[item] * roots[rows.columns[e]];
  }
};

}  // namespace foretime::gpu
