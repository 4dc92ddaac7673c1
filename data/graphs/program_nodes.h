#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/graphs/group.h"

namespace foretime::data {

/// Syntax trees side by side, one value a node in each array; the nodes of a tree stand in pre-order. What the .npz
/// files of tensor programs hold (FORMATS.md, data/tir) and what the TIR reader makes.
struct ProgramNodes {
  std::vector<int64_t> graph_ptr = {0};  // [graphs + 1] nodes of tree g are graph_ptr[g] … graph_ptr[g + 1] - 1
  std::vector<uint8_t> type;             // index into tir_type_names()
  std::vector<int32_t> parent;           // parent's position inside its tree, -1 for the root
  std::vector<int64_t> extent;           // For: trip count; Allocate: elements; else 0, and 0 where it is no constant
  std::vector<int8_t> loop_kind;         // For: 0 serial, 1 parallel, 2 vectorized, 3 unrolled, 4 thread; else -1
  std::vector<double> value;             // of an immediate; NaN elsewhere
  std::vector<int32_t> variable;         // identity of the node's variable inside its tree, -1 where it has none
  std::vector<int32_t> buffer;           // identity of the buffer that is touched, -1 where none is
  std::vector<int64_t> buffer_elements;  // its size, 0 where it is unknown or none
  std::vector<uint8_t> call_op;          // Call: index into call_op_names(); else no meaning

  int64_t graphs() const { return static_cast<int64_t>(graph_ptr.size()) - 1; }
  size_t nodes() const { return type.size(); }
  /// Calls `visit` with each array that has a value a node.
  template <class Visit>
  void visit_arrays(Visit&& visit) {
    const auto all = [&](auto&... arrays) { (visit(arrays), ...); };
    all(type, parent, extent, loop_kind, value, variable, buffer, buffer_elements, call_op);
  }
};

/// The trees as the graphs of a group of kind program: an edge from each child to its parent, and ProgramColumns as
/// node features. `nodes` must be right already: parents stand before their children, enumerations are in range.
GraphBlock program_graphs(ProgramNodes nodes);

/// How tensor programs become graphs: what data.representation chooses. Syntax trees as they are need none of these.
class Featurizer {
 public:
  virtual ~Featurizer() = default;
  virtual std::string name() const = 0;
  virtual int64_t feature_count() const = 0;
  /// One graph for each tree. `operations`: arithmetic operations of each program, or empty where they are unknown.
  /// Throws DataError.
  virtual GraphBlock graphs(ProgramNodes trees, std::span<const double> operations) const = 0;
};
using FeaturizerPtr = std::shared_ptr<const Featurizer>;

}  // namespace foretime::data
