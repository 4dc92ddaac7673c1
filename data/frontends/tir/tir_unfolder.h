#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "data/frontends/tir/tir_nodes.h"
#include "data/frontends/tir/tir_reader.h"

namespace foretime::data {

/// Unfolds the DAG of a document into syntax trees. The sizes of all subtrees are computed first, on the DAG, so that a
/// tree which is too large is refused before anything is written. Nothing is recursive, cycles are errors.
class TirUnfolder {
 public:
  explicit TirUnfolder(const TirLimits& limits) : limits_(limits) {}

  /// Starts on a document, which must outlive the calls of `unfold`.
  void start(const TirDocument& document, const std::string& origin);
  /// Appends the tree below `root`, a node of the document. Identities count from 0 in each tree: variables and buffers
  /// of the function's parameters first (parameters, then each one's buffer with its variable), then as they occur.
  /// Throws DataError, and then has appended nothing. Returns its depth in levels.
  int64_t unfold(int64_t root, ProgramNodes& trees);
  /// Type keys of the nodes that became Unknown since `start`, with their number in the trees. Those after the first
  /// 256 kinds are counted under "(others)".
  const std::map<std::string, int64_t>& unknown_types() const { return unknown_; }

 private:
  enum class State : uint8_t { fresh, open, done };
  /// Numbers things in the order in which they are first asked for, anew for each tree.
  struct Identities {
    std::vector<int32_t> tree, id;  // [nodes of the document]
    int32_t count = 0;
    void reset(int64_t nodes) {
      tree.assign(static_cast<size_t>(nodes), -1);
      id.resize(static_cast<size_t>(nodes));
    }
    bool known(int64_t node, int32_t now) const { return tree[static_cast<size_t>(node)] == now; }
    int32_t of(int64_t node, int32_t now) {
      if (!known(node, now)) set(node, now, count++);
      return id[static_cast<size_t>(node)];
    }
    void set(int64_t node, int32_t now, int32_t value) {
      tree[static_cast<size_t>(node)] = now;
      id[static_cast<size_t>(node)] = value;
    }
  };

  void check_buffer(int64_t node, const TirField& field, int64_t reference);
  void charge(int64_t node, int64_t count);
  void add_child(int64_t node, const TirField& field, int64_t reference);
  void add_bound(int64_t node, const TirField& field, int64_t reference);
  /// Checks the fields of one node, sets its extent and its children.
  void collect(int64_t node);
  /// Sums up a node whose children are done.
  void finish(int64_t node);
  void measure(int64_t root);
  /// Gives parameters and their buffers their identities.
  void declare_parameters(int64_t function);
  void append(int64_t node, int32_t parent, ProgramNodes& trees);

  TirLimits limits_;
  TirNodes nodes_;
  int64_t left_ = 0;  // nodes that the document's further trees may have

  // By node of the document; the second part is known once a node is done.
  std::vector<State> state_;
  std::vector<int64_t> size_, extent_;                   // nodes of its tree; ProgramNodes::extent
  std::vector<int32_t> height_;                          // levels of its tree
  std::vector<std::pair<uint32_t, uint32_t>> children_;  // its part of child_
  std::vector<uint32_t> child_;
  std::vector<int64_t> elements_;  // of a buffer; −1 while unknown

  std::map<std::string, int64_t> unknown_;
  int32_t tree_ = 0;
  Identities variables_, buffers_;
  std::vector<int64_t> variable_elements_;  // of the buffer behind a variable, for Load and Store
};

}  // namespace foretime::data
