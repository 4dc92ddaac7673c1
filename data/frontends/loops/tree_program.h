#pragma once

#include <cstdint>
#include <vector>

#include "data/frontends/loops/access_pattern.h"
#include "data/frontends/loops/loop_program.h"
#include "data/graphs/program_nodes.h"

namespace foretime::data {

/// Extracts the statements of TIR syntax trees: each BufferStore with the For loops around it. Elements are assumed to
/// have four bytes, since trees do not give their size. An index of several dimensions is flattened in row-major order
/// over the values of each dimension. Parts of indices that are not integer arithmetic (loads, calls) count as 0.
/// Reuses its memory; make one object for each thread.
class TreeProgram {
 public:
  /// Overwrites `program` with tree `graph` of `nodes`. Throws DataError if it is larger than a LoopProgram may be.
  void read(const ProgramNodes& nodes, int64_t graph, LoopProgram& program);

 private:
  struct Tree;  // a tree in the arrays
  struct Place {
    int32_t children[2] = {-1, -1};  // first two children
    int32_t last_child = -1;
    int32_t statement = -1;  // BufferStore above or at this node
    int32_t loop = -1;       // nearest For above or at it
    int64_t unroll_limit = 0;
    bool index = false;      // part of an index
    bool condition = false;  // operand of a comparison
  };

  /// Finds the statement and loop around each node.
  void find_places(const Tree& tree);
  void read_indices(const Tree& tree);
  Affine index_value(const Tree& tree, int32_t node);
  int32_t loop_around(const Tree& tree, int32_t loop) const;  // -1: none
  /// Returns the row-major position that an access has in its buffer.
  Affine flat_index(const Tree& tree, int32_t access);
  void add_statement(const Tree& tree, int32_t node, LoopProgram& program);
  void add_access(const Tree& tree, int32_t node, LoopProgram& program);
  void count_arithmetic(const Tree& tree, int32_t node, ProgramStatement& statement);
  int32_t buffer_of(const Tree& tree, int32_t node, LoopProgram& program);

  std::vector<Place> places_;
  std::vector<Affine> values_;
  std::vector<int32_t> loop_nodes_;
  std::vector<int32_t> buffers_;  // [identities of buffers in the tree]
  std::vector<IndexLoop> index_loops_;
  AffinePool pool_;
  AccessPattern pattern_;
};

}  // namespace foretime::data
