#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "data/frontends/tir/tir_document.h"
#include "data/frontends/tir/tir_reader.h"
#include "data/graphs/schema.h"

namespace foretime::data {

/// Follows and checks the references of a document. Errors are DataErrors of the form `origin: node 12 (tir.For):
/// found, expected`. In the functions, `reference` is the value of the field `field` of the node `node`.
struct TirNodes {
  static constexpr int64_t kMaxDimensions =
      64;  // dimensions of a buffer; TVM has no limit, but its operators stop at 8
  static constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

  const TirDocument* document = nullptr;
  std::string origin;

  [[noreturn]] void fail(int64_t node, const std::string& what) const {
    throw DataError("{}: node {} ({}): {}", origin, node, document->type(node).key, what);
  }
  /// Returns `reference`. Throws DataError if the node lacks the field or the document has no node of this number.
  int64_t target(int64_t node, const TirField& field, int64_t reference) const {
    if (reference == TirDocument::kMissing)
      fail(node,
           fmt::format("no field {}; TVM '{}' wrote it, expected v0.8 to v0.14", field.name, document->version()));
    if (reference < 0 || reference >= document->size())
      fail(node, fmt::format("{}: {}, expected one of the {} nodes", field.name, reference, document->size()));
    return reference;
  }
  /// Returns the entries, unchecked, of the Array that a field refers to. Throws DataError for another type of node.
  std::span<const int64_t> list(int64_t node, const TirField& field, int64_t reference) const {
    const int64_t array = target(node, field, reference);
    if (document->type(array).kind != TirClass::list)
      fail(node, fmt::format("{}: node {} ({}), expected an Array", field.name, array, document->type(array).key));
    return document->data(array);
  }
  /// Returns the entries of an Array like list(). Throws DataError also for more than kMaxDimensions entries.
  std::span<const int64_t> dimensions(int64_t node, const TirField& field, int64_t reference) const {
    const auto sizes = list(node, field, reference);
    if (std::ssize(sizes) > kMaxDimensions)
      fail(node, fmt::format("{}: {} dimensions, expected at most {}", field.name, sizes.size(), kMaxDimensions));
    return sizes;
  }
  /// Returns whether a node is a constant integer (IntImm), or a vector that repeats a constant integer (Broadcast),
  /// such as the predicate of a vectorised Load.
  bool is_constant(int64_t node) const {
    static const uint8_t integer = tir_type_id("IntImm"), broadcast = tir_type_id("Broadcast");
    const auto& type = document->type(node);
    if (type.node_type == integer) return true;
    if (type.node_type != broadcast) return false;
    const int64_t value = document->field(node, 0);
    return value >= 0 && value < document->size() && document->type(value).node_type == integer;
  }
  /// Multiplies `product` by the size that a field refers to, up to kLargest. Sets `product` to 0, which means "not
  /// constant", if the size is not an IntImm. Throws DataError if the size is negative.
  void multiply(int64_t node, const TirField& field, int64_t reference, int64_t& product) const {
    static const uint8_t integer = tir_type_id("IntImm");
    const int64_t size = target(node, field, reference);
    if (document->type(size).node_type != integer) {
      product = 0;
      return;
    }
    const int64_t value = document->field(size, 0);
    if (value < 0) fail(node, fmt::format("{}: a size of {}, expected 0 or more", field.name, value));
    if (__builtin_mul_overflow(product, value, &product)) product = kLargest;
  }
};

/// Unfolds the DAG of a document into syntax trees: a node with several parents occurs in the tree below each of them.
/// Cycles are errors. Uses no recursion.
class TirUnfolder {
 public:
  explicit TirUnfolder(const TirLimits& limits) : limits_(limits) {}

  /// Selects the document of the next calls of unfold(), which it must outlive; messages start with `origin`.
  void start(const TirDocument& document, const std::string& origin);
  /// Appends the tree below `root`, a node of the document, to `trees` and returns the tree's depth in levels.
  /// Variables and buffers are numbered separately from 0 in each tree: first the function's parameters and the buffers
  /// of its buffer_map, in the map's order, each with its variable; then the others in order of occurrence. Throws
  /// DataError for an invalid node or a tree above the limits; `trees` is then unchanged.
  int64_t unfold(int64_t root, ProgramNodes& trees);
  /// Returns the type keys of the nodes that became Unknown since start(), and the number of tree nodes with each key.
  /// Keys after the first 256 are counted as "(others)".
  const std::map<std::string, int64_t>& unknown_types() const { return unknown_; }

 private:
  /// Says whether a node's subtree was not reached yet, is being measured, or has been measured.
  enum class State : uint8_t { fresh, open, done };
  /// Numbers nodes from 0 in each tree, in the order of their first look-up. `now`: number of the current tree.
  struct Identities {
    std::vector<int32_t> tree, id;  // [nodes of the document] last tree that numbered the node; the number
    int32_t count = 0;              // numbers given in the current tree
    void reset(int64_t nodes) {
      tree.assign(nodes, -1);
      id.resize(nodes);
    }
    bool known(int64_t node, int32_t now) const { return tree[node] == now; }  // it has a number in this tree
    /// Returns the number of a node in the current tree; without one, gives the node the next number.
    int32_t of(int64_t node, int32_t now) {
      if (!known(node, now)) set(node, now, count++);
      return id[node];
    }
    void set(int64_t node, int32_t now, int32_t value) {
      tree[node] = now;
      id[node] = value;
    }
  };

  /// Computes the number of elements of the Buffer or Tensor that a field refers to. Throws DataError for other nodes.
  void check_buffer(int64_t node, const TirField& field, int64_t reference);
  /// Subtracts `count` from nodes_left_. Throws DataError, naming `node`, if fewer are left.
  void count_against_limit(int64_t node, int64_t count);
  /// Adds the expression or statement that a field refers to as a child of `node`. Throws DataError for other nodes.
  void add_child(int64_t node, const TirField& field, int64_t reference);
  void add_bound(int64_t node, const TirField& field, int64_t reference);  // adds a child unless it is constant
  void collect(int64_t node);  // checks the fields of one node, and sets its extent and its children
  void finish(int64_t node);   // computes size and depth of the tree below a node from those of its children
  void measure(int64_t root);  // computes size and depth of all subtrees; throws DataError for a cycle
  void declare_parameters(int64_t function);  // numbers the parameters of a PrimFunc and their buffers
  /// Appends one node, without its children, to `trees`; `parent` is its parent's place in the tree, -1 for the root.
  void append(int64_t node, int32_t parent, ProgramNodes& trees);

  TirLimits limits_;
  TirNodes nodes_;
  int64_t nodes_left_ = 0;  // nodes that further trees of the document may have

  // The following arrays are indexed by the document's nodes; values after state_ are known once a node is done.
  std::vector<State> state_;
  std::vector<int64_t> size_, extent_;                   // nodes in the tree below a node; ProgramNodes::extent
  std::vector<int32_t> height_;                          // levels of the tree below a node
  std::vector<std::pair<uint32_t, uint32_t>> children_;  // start and number of a node's children in child_
  std::vector<uint32_t> child_;                          // numbers of the children of all nodes; not indexed by node
  std::vector<int64_t> elements_;                        // elements of a buffer, 0: not constant; −1 while unknown

  std::map<std::string, int64_t> unknown_;  // see unknown_types()
  int32_t tree_ = 0;                        // number of the current tree in the document
  Identities variables_, buffers_;
  std::vector<int64_t> variable_elements_;  // [nodes of the document] elements of the buffer of a variable; 0: unknown
};

}  // namespace foretime::data
