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

/// Follows the references of a document. Throws DataError `origin: node 12 (tir.For): found, expected` for a reference
/// to a wrong kind of node.
struct TirNodes {
  static constexpr int64_t kMaxDimensions =
      64;  // dimensions of a buffer; TVM has no limit, but its operators stop at 8
  static constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

  const TirDocument* document = nullptr;
  std::string origin;

  [[noreturn]] void fail(int64_t node, const std::string& what) const {
    throw DataError("{}: node {} ({}): {}", origin, node, document->type(node).key, what);
  }
  /// Returns the node of a reference, of any kind. Throws DataError if there is none.
  int64_t target(int64_t node, const TirField& field, int64_t reference) const {
    if (reference == TirDocument::kMissing)
      fail(node,
           fmt::format("no field {}; TVM '{}' wrote it, expected v0.8 to v0.14", field.name, document->version()));
    if (reference < 0 || reference >= document->size())
      fail(node, fmt::format("{}: {}, expected one of the {} nodes", field.name, reference, document->size()));
    return reference;
  }
  /// Returns the nodes of an Array.
  std::span<const int64_t> list(int64_t node, const TirField& field, int64_t reference) const {
    const int64_t array = target(node, field, reference);
    if (document->type(array).kind != TirClass::list)
      fail(node, fmt::format("{}: node {} ({}), expected an Array", field.name, array, document->type(array).key));
    return document->data(array);
  }
  /// Returns the nodes of an Array with at most kMaxDimensions entries.
  std::span<const int64_t> dimensions(int64_t node, const TirField& field, int64_t reference) const {
    const auto sizes = list(node, field, reference);
    if (std::ssize(sizes) > kMaxDimensions)
      fail(node, fmt::format("{}: {} dimensions, expected at most {}", field.name, sizes.size(), kMaxDimensions));
    return sizes;
  }
  /// Returns whether a node is a constant integer, or a vector of one, such as the predicate of a vectorised Load.
  bool is_constant(int64_t node) const {
    static const uint8_t integer = tir_type_id("IntImm"), broadcast = tir_type_id("Broadcast");
    const auto& type = document->type(node);
    if (type.node_type == integer) return true;
    if (type.node_type != broadcast) return false;
    const int64_t value = document->field(node, 0);
    return value >= 0 && value < document->size() && document->type(value).node_type == integer;
  }
  /// Multiplies `product` by a size; 0, which means "not constant", stays 0.
  void multiply(int64_t node, const TirField& field, int64_t factor, int64_t& product) const {
    static const uint8_t integer = tir_type_id("IntImm");
    const int64_t size = target(node, field, factor);
    if (document->type(size).node_type != integer) {
      product = 0;
      return;
    }
    const int64_t value = document->field(size, 0);
    if (value < 0) fail(node, fmt::format("{}: a size of {}, expected 0 or more", field.name, value));
    if (__builtin_mul_overflow(product, value, &product)) product = kLargest;
  }
};

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
