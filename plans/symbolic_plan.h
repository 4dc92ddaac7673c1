#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/graphs/group.h"
#include "data/graphs/pruning.h"
#include "plans/message_plan.h"

namespace foretime::plans {

/// Identifies the computation of a state by 128 bits. The probability that two of n states collide is n² / 2^129
/// (10^-26 for a million), which is neglected.
struct StateHash {
  uint64_t low = 0, high = 0;
  bool operator==(const StateHash&) const = default;
};

/// Returns the hash of a multiset: the sum of its members' hashes.
inline StateHash operator+(StateHash a, StateHash b) { return {a.low + b.low, a.high + b.high}; }

/// Returns the xor of the upper and lower half of a 64 × 64 bit product (as wyhash and the MUM hashes do).
inline uint64_t fold_product(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

/// Returns a pseudo-random hash that depends on all bits of `h` and `key`.
inline StateHash mixed(StateHash h, uint64_t key) {
  const uint64_t a = fold_product(h.low ^ 0x9E3779B97F4A7C15U ^ key, h.high ^ 0xD6E8FEB86659FD93U);
  const uint64_t b = fold_product(h.high ^ 0xA0761D6478BD642FU ^ key, h.low ^ 0xE7037ED1A0B428DBU);
  return {a + (h.low ^ (h.high << 23 | h.high >> 41)) * 0x8EBC6AF09C88C6E3U, b + (h.high ^ key) * 0x589965CC75374CC3U};
}

/// Returns the hash of the ordered pair (a, b).
inline StateHash combined(StateHash a, StateHash b) {
  return mixed(
      {a.low + 3 * b.high + 0x1D8E4E27C47D124FU, a.high ^ fold_product(b.low ^ 0x2D358DCCAA6C78A5U, b.high | 1)},
      b.low);
}

/// Returns a hash of the bytes, their number and `key`.
StateHash hash_bytes(std::span<const std::byte> bytes, uint64_t key);

/// Appends the entries (column, value) of one row to `columns` and `values` of a sparse matrix, in the order of their
/// columns. Values of one column are added up to one entry. Sorts `entries`.
inline void append_merged(std::vector<std::pair<int32_t, double>>& entries, std::vector<int32_t>& columns,
                          std::vector<double>& values) {
  std::ranges::sort(entries);
  for (size_t i = 0; i < entries.size();) {
    const int32_t column = entries[i].first;
    double sum = 0;
    for (; i < entries.size() && entries[i].first == column; ++i) sum += entries[i].second;
    columns.push_back(column);
    values.push_back(sum);
  }
}

/// Numbers distinct hashes 0, 1, … in the order of their first occurrence.
class StateTable {
 public:
  /// Returns the number of `hash`, and whether this call added it.
  std::pair<int32_t, bool> intern(StateHash hash) {
    if (2 * hashes_.size() >= slots_.size()) grow();
    size_t at = hash.low & mask_;
    while (slots_[at] >= 0) {
      if (hashes_[slots_[at]] == hash) return {slots_[at], false};
      at = (at + 1) & mask_;
    }
    slots_[at] = hashes_.size();
    hashes_.push_back(hash);
    return {slots_[at], true};
  }
  /// Returns the hash with number `state`.
  const StateHash& hash(int32_t state) const { return hashes_[state]; }
  int64_t size() const { return hashes_.size(); }

 private:
  void grow() {
    slots_.assign(slots_.empty() ? 1024 : 2 * slots_.size(), -1);
    mask_ = slots_.size() - 1;
    for (size_t i = 0; i < hashes_.size(); ++i) {
      size_t at = hashes_[i].low & mask_;
      while (slots_[at] >= 0) at = (at + 1) & mask_;
      slots_[at] = i;
    }
  }

  std::vector<StateHash> hashes_;
  std::vector<int32_t> slots_;  // number of a hash, or -1
  size_t mask_ = 0;
};

/// Returns the weight of each configurable node, [configurable]: 1 / number of nodes with the node's decision, so that
/// every decision of the compiler counts once. Two nodes carry one decision if candidates that agree at one of them
/// always agree at the other; all nodes with a single layout carry one decision. `candidates` is the number of the
/// group's candidates; if there are more than 2^24 codes, only every n-th candidate is compared.
std::vector<double> decision_weights(const data::LayoutCandidates& layout, int64_t candidates);

struct NodeSubset;

/// Holds the parts that all plans of a layout graph share, whatever candidates are sampled.
///
/// After l layers a node's embedding is a function of the tree of inputs that reaches it in l steps: features, types
/// and layouts of nodes, and the weights of the edges between them. Two (node, candidate) pairs whose trees agree have
/// one *state*: the same embedding, computed once, and the same gradient, scattered with its count. A tree is known by
/// its StateHash, so the plan of a sample interns hashes level by level and never compares trees.
///
/// Only nodes within l steps of a configurable node differ between candidates. All others are *fixed*: their states are
/// part of this plan. A *varying* node depends on a set of configurable nodes, which is its *class*; candidates that
/// agree on all of them agree on the node. A sample divides its candidates into the blocks of each class.
struct SymbolicPlan {
  /// Holds the distinct (features, type) pairs of the nodes.
  struct Inputs {
    std::vector<StateHash> hash;
    std::vector<int32_t> graph_node;  // first node with the pair, as an id in the group's graph
  };

  /// Holds the classes of all levels. Class q < configurable() is the set of configurable node q alone; a later class
  /// is the union of the earlier classes members[member_ptr[q]] … members[member_ptr[q + 1] - 1]. Class `everything`,
  /// always the last, replaces sets that are too large to divide by: every candidate is a separate block.
  struct Classes {
    std::vector<int64_t> member_ptr;
    std::vector<int32_t> members;
    int64_t count() const { return std::ssize(member_ptr) - 1; }
    int32_t everything() const { return count() - 1; }
  };

  /// Holds states that are equal for all candidates, distinct within their level. The messages that state i receives
  /// under relation r are the entries from row_ptr[r * states + i] to row_ptr[r * states + i + 1] - 1.
  struct Fixed {
    std::vector<StateHash> hash;
    std::vector<int32_t> input;       // level 0: index in `inputs`
    std::vector<int32_t> layout_row;  // level 0: row of the group's layout table; -1: the node is not configurable
    std::vector<int32_t> self;        // higher levels: the fixed state one level down
    std::vector<int64_t> row_ptr;
    std::vector<int32_t> columns;  // sending states: fixed ones one level down, distinct within a row
    std::vector<double> values;    // weight of each message
    int64_t states() const { return hash.size(); }
  };

  /// Holds nodes that differ between candidates, with messages as in Fixed. A *reference* ≥ 0 names a varying node one
  /// level down by its position, a reference < 0 the fixed state -1 - reference.
  struct Varying {
    std::vector<int32_t> class_of;  // [nodes] class of the configurable nodes that the node depends on
    std::vector<int32_t> input;     // level 0: index in `inputs`
    std::vector<StateHash> base;    // level 0: hash of the input; higher levels: sum over messages of fixed neighbours
    std::vector<int32_t> self;      // higher levels: reference to the node's state one level down
    std::vector<int64_t> row_ptr;
    std::vector<int32_t> columns;  // references; fixed ones come last, distinct within a row
    std::vector<double> values;
    int64_t nodes() const { return class_of.size(); }
  };

  struct Level {
    Fixed fixed;
    Varying varying;
  };

  /// Holds a piece of the readout: the nodes of one pool and one class, in the last level.
  struct Part {
    int32_t pool = 0;
    int32_t class_of = -1;         // class of the nodes; -1: fixed nodes
    std::vector<int32_t> members;  // fixed states if class_of is -1, else positions of varying nodes
    std::vector<double> counts;    // [members] how often each counts in the readout
  };

  PlanRequest request;
  int64_t nodes = 0;  // number of nodes in the graph or subset
  int64_t pools = 1;
  std::vector<int32_t> column;        // [configurable] column of the group's codes
  std::vector<int32_t> first_column;  // [varying nodes of level 0] index in `column` of each
  std::vector<StateHash> row_hash;    // [rows of the group's layout table] hash of each row
  Inputs inputs;
  Classes classes;
  std::vector<Level> levels;                         // [layers + 1]
  std::vector<Part> node_parts, configurable_parts;  // readouts of all nodes and of configurable ones
  std::vector<Part> tied_parts;  // configurable nodes, counted by decision_weights; empty unless PlanRequest::tied

  int64_t configurable() const { return column.size(); }
};

/// Returns the key by which a message of this relation and weight enters the hash of the state that receives it.
inline uint64_t message_key(size_t relation, double weight) {
  return std::bit_cast<uint64_t>(weight) ^ (relation + 1) * 0x9E3779B97F4A7C15U;
}

/// The default of the largest number of configurable nodes in a class.
constexpr int64_t kClassLimit = 48;

/// Returns the hash of each row of the layout table (SymbolicPlan::row_hash).
std::vector<StateHash> hash_layout_rows(const data::LayoutCandidates& layout);

/// Makes the symbolic plan of a layout group, or of the subgraph that `subset` induces. The request must share states.
/// Sets of more than `class_limit` configurable nodes are replaced by the class `everything`.
std::shared_ptr<const SymbolicPlan> make_symbolic_plan(const data::Group& group, const PlanRequest& request,
                                                       const NodeSubset& subset, int64_t class_limit = kClassLimit);

}  // namespace foretime::plans
