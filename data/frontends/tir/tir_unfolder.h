#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "data/frontends/tir/tir_nodes.h"
#include "data/frontends/tir/tir_reader.h"

namespace foretime::data {

/// Unfolds the DAG of a document into syntax trees. Computes the sizes of all subtrees first, on the DAG, so that too
/// large a tree is refused before anything is written. Uses no recursion; cycles are errors.
class TirUnfolder {
 public:
  explicit TirUnfolder(const TirLimits& limits) : limits_(limits) {}

  /// Starts a document, which must outlive the calls of `unfold`.
  void start(const TirDocument& document, const std::string& origin);
  /// Appends the tree below `root`, a node of the document, and returns its depth in levels. Variables and
  /// buffers are numbered separately from 0 in each tree: first the function's parameters and the buffers of its
  /// buffer_map, in the map's order, each with its variable; then the others in order of occurrence. Throws DataError,
  /// and then has appended nothing.
  int64_t unfold(int64_t root, ProgramNodes& trees);
  /// Returns the type keys of the nodes that became Unknown since `start`, with their number in the trees. Keys after
  /// the first 256 are counted as "(others)".
  const std::map<std::string, int64_t>& unknown_types() const { return unknown_; }

 private:
  enum class State : uint8_t { fresh, open, done };
  /// Numbers nodes in the order in which they are first looked up, starting from 0 in each tree.
  struct Identities {
    std::vector<int32_t> tree, id;  // [nodes of the document]
    int32_t count = 0;
    void reset(int64_t nodes) {
      tree.assign(nodes, -1);
      id.resize(nodes);
    }
    bool known(int64_t node, int32_t now) const { return tree[node] == now; }
    int32_t of(int64_t node, int32_t now) {
      if (!known(node, now)) set(node, now, count++);
      return id[node];
    }
    void set(int64_t node, int32_t now, int32_t value) {
      tree[node] = now;
      id[node] = value;
    }
  };

  void check_buffer(int64_t node, const TirField& field, int64_t reference);
  /// Adds `count` nodes to the tree of `node`. Throws DataError above the limit.
  void count_against_limit(int64_t node, int64_t count);
  void add_child(int64_t node, const TirField& field, int64_t reference);
  /// Adds a bound as a child unless it is constant.
  void add_bound(int64_t node, const TirField& field, int64_t reference);
  /// Checks the fields of one node, sets its extent and its children.
  void collect(int64_t node);
  /// Computes the sums of a node whose children are done.
  void finish(int64_t node);
  /// Computes size and depth of all subtrees below `root`.
  void measure(int64_t root);
  /// Assigns identities to parameters and their buffers.
  void declare_parameters(int64_t function);
  /// Appends the tree below a node to `trees`.
  void append(int64_t node, int32_t parent, ProgramNodes& trees);

  TirLimits limits_;
  TirNodes nodes_;
  int64_t nodes_left_ = 0;  // remaining nodes for further trees of the document

  // The following arrays are indexed by the document's nodes; values after state_ are known once a node is done.
  std::vector<State> state_;
  std::vector<int64_t> size_, extent_;                   // nodes in its tree; ProgramNodes::extent
  std::vector<int32_t> height_;                          // levels in its tree
  std::vector<std::pair<uint32_t, uint32_t>> children_;  // range in child_
  std::vector<uint32_t> child_;
  std::vector<int64_t> elements_;  // elements in a buffer; −1 while unknown

  std::map<std::string, int64_t> unknown_;
  int32_t tree_ = 0;
  Identities variables_, buffers_;
  std::vector<int64_t> variable_elements_;  // size of the buffer behind a variable, for Load and Store
};

}  // namespace foretime::data
