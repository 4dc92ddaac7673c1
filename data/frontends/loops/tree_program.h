#pragma once

#include <cstdint>
#include <vector>

#include "data/frontends/loops/access_pattern.h"
#include "data/frontends/loops/loop_program.h"
#include "data/graphs/program_nodes.h"

namespace foretime::data {

/// Extracts the statements of TIR syntax trees: each BufferStore, ProducerStore or Store with the For loops of more
/// than one iteration around it. Elements are assumed to have four bytes, since trees do not give their size. An index
/// of several dimensions is flattened in row-major order over the values of each dimension. Parts of indices that are
/// not integer arithmetic (loads, calls) count as 0. Reuses its memory; make one object for each thread.
class TreeProgram {
 public:
  /// Overwrites `program` with the statements of tree number `graph` of `nodes`. Throws DataError for more statements
  /// than kMostStatements, more loops around one than kMostStatementLoops, and numbers beyond 2^62.
  void read(const ProgramNodes& nodes, int64_t graph, LoopProgram& program);

 private:
  struct Tree;  // a tree of the nodes; a node's number counts from the tree's root, which is 0
  /// Describes where a node is in its tree; nodes are given by their numbers, -1: none.
  struct Place {
    int32_t children[2] = {-1, -1};  // first two children
    int32_t last_child = -1;
    int32_t statement = -1;    // nearest store above or at this node
    int32_t loop = -1;         // nearest For above or at this node
    int64_t unroll_limit = 0;  // auto_unroll_max_step at this node, 0: none
    bool index = false;        // part of an index
    bool condition = false;    // operand of a comparison or logical operation
  };

  void find_places(const Tree& tree);                  // sets the Place of each node
  void read_indices(const Tree& tree);                 // computes the values of all nodes that are parts of indices
  Affine index_value(const Tree& tree, int32_t node);  // value of a node in an index, from those of its children
  int32_t loop_around(const Tree& tree, int32_t loop) const;  // nearest For above a For; -1: none
  Affine flat_index(const Tree& tree, int32_t access);        // row-major position of an access in its buffer
  void add_statement(const Tree& tree, int32_t node, LoopProgram& program);  // adds the statement of a store node
  void add_access(const Tree& tree, int32_t node, LoopProgram& program);
  void count_arithmetic(const Tree& tree, int32_t node, ProgramStatement& statement);
  /// Returns the index in LoopProgram::buffers of the buffer that a node accesses; adds the buffer if it is new.
  int32_t buffer_of(const Tree& tree, int32_t node, LoopProgram& program);

  std::vector<Place> places_;           // [nodes of the tree]
  std::vector<Affine> values_;          // [nodes of the tree] values in indices
  std::vector<int32_t> loop_nodes_;     // For nodes around the current statement, outermost first
  std::vector<int32_t> buffers_;        // [LoopProgram::buffers] the buffers' numbers in the tree
  std::vector<IndexLoop> index_loops_;  // the loops of loop_nodes_
  AffinePool pool_;
  AccessPattern pattern_;
};

}  // namespace foretime::data
