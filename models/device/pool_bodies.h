#pragma once

/// What GPU threads do for TopK pooling of graphs that stand one after another (models/autograd/top_nodes.cpp has the
/// rule, and inference::choose_nodes the same on the host): bodies like those of bodies.h, whose text NVRTC finds
/// before this one, to be run in the order in which they stand here. The host knows how many nodes stay, and asks for
/// nothing.
#ifndef __CUDACC_RTC__
#include "models/device/bodies.h"
#endif

namespace foretime::device {

#ifdef __CUDACC__
FORETIME_BODY double round_up(double x) { return ceil(x); }
#else
FORETIME_BODY double round_up(double x) { return std::ceil(x); }
#endif

/// inference::kept_nodes
FORETIME_BODY int kept_of(int nodes, double ratio) {
  const double wanted = nodes * ratio;
  const int kept = int(round_up(wanted * (1 - 1e-9)));
  const int least = nodes < 1 ? nodes : 1;
  return kept < least ? least : kept > nodes ? nodes : kept;
}

/// Which nodes are of which graph: those of graph g are ptr[g] … ptr[g + 1] - 1.
struct GraphsOf {
  const int* ptr = nullptr;       // [graphs + 1]
  const int* graph_of = nullptr;  // [nodes]
};

/// Item = graph, and one more: where its kept nodes begin, and how many they are.
template <class T>
struct KeptPointers {
  const int* ptr = nullptr;
  int graphs = 0;
  double ratio = 1;
  int* kept_ptr = nullptr;  // [graphs + 1]
  T* counts = nullptr;      // [graphs]

  FORETIME_BODY void operator()(int item) const {
    int before = 0;
    for (int g = 0; g < item; ++g) before += kept_of(ptr[g + 1] - ptr[g], ratio);
    kept_ptr[item] = before;
    if (item < graphs) counts[item] = T(kept_of(ptr[item + 1] - ptr[item], ratio));
  }
};

/// Item = node: its place among its graph's nodes by descending score, equal ones in their order.
template <class T>
struct ScorePlaces {
  GraphsOf graphs;
  const T* scores = nullptr;
  double lowest = 0;         // -∞, what a score that is no number counts as
  int* places = nullptr;     // [nodes]
  double* sorted = nullptr;  // [nodes] each graph's scores in that order

  FORETIME_BODY double score(int node) const {
    const double value = double(scores[node]);
    return value != value ? lowest : value;
  }
  FORETIME_BODY void operator()(int item) const {
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

/// Item = graph: the places of those nodes that are tied with the last one that stays, where it is tied with the first
/// one that does not. Nodes before them stay.
struct TieSpans {
  const int* ptr = nullptr;
  const int* kept_ptr = nullptr;
  const double* sorted = nullptr;
  double tie_part = 0;   // of the largest score
  int* begin = nullptr;  // [graphs]
  int* end = nullptr;    // [graphs]

  FORETIME_BODY void operator()(int item) const {
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

/// Item = node: whether it stays. Of tied ones the first do.
struct ChosenNodes {
  GraphsOf graphs;
  const int* kept_ptr = nullptr;
  const int* places = nullptr;
  const int* begin = nullptr;
  const int* end = nullptr;
  int* stays = nullptr;  // [nodes] 0 or 1

  FORETIME_BODY void operator()(int item) const {
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

/// Item = node, and one more: how many nodes before it stay, and what there is to know of one that does.
struct KeptPlaces {
  GraphsOf graphs;
  int nodes = 0, kept_count = 0;
  const int* kept_ptr = nullptr;
  const int* stays = nullptr;
  int* before = nullptr;      // [nodes + 1]
  int* kept = nullptr;        // [kept] nodes, ascending
  int* kept_graph = nullptr;  // [kept] their graphs

  FORETIME_BODY void operator()(int item) const {
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

/// A matrix between nodes, and which of them stay.
template <class T>
struct Restriction {
  RowsOf from;
  const T* values = nullptr;  // null: ones
  const int* kept = nullptr;
  const int* stays = nullptr;
  const int* before = nullptr;
};

/// Item = kept node: how many entries its row keeps, after a 0.
template <class T>
struct KeptEntryCounts {
  Restriction<T> of;
  int* counts = nullptr;  // [kept + 1]

  FORETIME_BODY void operator()(int item) const {
    const int row = of.kept[item];
    int count = 0;
    for (int e = of.from.first(row); e < of.from.last(row); ++e) count += of.stays[of.from.columns[e]];
    counts[item + 1] = count;
    if (item == 0) counts[0] = 0;
  }
};

/// Item = kept node: its row between kept nodes.
template <class T>
struct KeptEntries {
  Restriction<T> of;
  const int* row_ptr = nullptr;  // [kept + 1]
  int* columns = nullptr;        // room for all entries
  T* values = nullptr;

  FORETIME_BODY void operator()(int item) const {
    const int row = of.kept[item];
    int to = row_ptr[item];
    for (int e = of.from.first(row); e < of.from.last(row); ++e) {
      const int column = of.from.columns[e];
      if (of.stays[column] == 0) continue;
      columns[to] = of.before[column];
      values[to] = of.values ? of.values[e] : T(1);
      ++to;
    }
  }
};

/// Item = row: the sum of its values to the power of -1/2.
template <class T>
struct DegreeRoots {
  RowsOf rows;
  const T* values = nullptr;  // null: ones
  T* out = nullptr;           // [rows]

  FORETIME_BODY void operator()(int item) const {
    T sum = T(0);
    for (int e = rows.first(item); e < rows.last(item); ++e) sum += values ? values[e] : T(1);
    out[item] = T(1 / square_root(double(sum)));
  }
};

/// Item = row: its values times the roots of their row and column.
template <class T>
struct NormalizedValues {
  RowsOf rows;
  const T* values = nullptr;
  const T* roots = nullptr;
  T* out = nullptr;  // room for all entries

  FORETIME_BODY void operator()(int item) const {
    for (int e = rows.first(item); e < rows.last(item); ++e)
      out[e] = (values ? values[e] : T(1)) * roots[item] * roots[rows.columns[e]];
  }
};

}  // namespace foretime::device
