#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/graphs/group.h"

namespace foretime::data {

/// Holds syntax trees in common arrays with one value per node; the nodes of a tree are in pre-order. The .npz files of
/// tensor programs contain these arrays, and the TIR reader makes them.
struct ProgramNodes {
  std::vector<int64_t> graph_ptr = {0};  // [graphs + 1] nodes of tree g are graph_ptr[g] … graph_ptr[g + 1] - 1
  std::vector<uint8_t> type;             // index into tir_type_names()
  std::vector<int32_t> parent;           // parent's position inside its tree, -1 for the root
  std::vector<int64_t> extent;           // For: trip count; Allocate: elements; 0 elsewhere and if not constant
  std::vector<int8_t> loop_kind;         // For: 0 serial, 1 parallel, 2 vectorized, 3 unrolled, 4 thread; else -1
  std::vector<double> value;             // immediates; NaN elsewhere
  std::vector<int32_t> variable;         // identity of the node's variable inside its tree; -1: none
  std::vector<int32_t> buffer;           // identity of the accessed buffer; -1: none
  std::vector<int64_t> buffer_elements;  // size of that buffer; 0: unknown or none
  std::vector<uint8_t> call_op;          // Call: index into call_op_names(); otherwise unused

  int64_t graphs() const { return std::ssize(graph_ptr) - 1; }
  size_t nodes() const { return type.size(); }
  /// Calls `visit` with each array that has one value per node.
  template <class Visit>
  void visit_arrays(Visit&& visit) {
    const auto all = [&](auto&... arrays) { (visit(arrays), ...); };
    all(type, parent, extent, loop_kind, value, variable, buffer, buffer_elements, call_op);
  }
};

/// Returns the trees as the graphs of a group of kind program: an edge from each child to its parent, and
/// ProgramColumns as node features. `nodes` must be valid: parents precede their children, enumerations are in range.
GraphBlock program_graphs(ProgramNodes nodes);

/// Converts syntax trees of tensor programs to graphs, as chosen by data.representation. Graphs of the syntax trees
/// themselves need no featurizer.
class Featurizer {
 public:
  virtual ~Featurizer() = default;
  virtual std::string name() const = 0;  // value of data.representation
  virtual int64_t feature_count() const = 0;
  /// Returns one graph for each tree. `operations`, [trees], are the numbers of arithmetic operations of the programs,
  /// or empty if unknown; `target`: TVM's, or "". Throws DataError for a program that cannot be converted.
  virtual GraphBlock graphs(ProgramNodes trees, std::span<const double> operations, std::string_view target) const = 0;
};
using FeaturizerPtr = std::shared_ptr<const Featurizer>;

}  // namespace foretime::data
