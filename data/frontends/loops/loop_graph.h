#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/frontends/loops/loop_columns.h"
#include "data/frontends/loops/program_graphs.h"

namespace foretime::data {

/// Loop graphs of programs: for each statement, in order, a node of type BufferStore; then For nodes, its loops from
/// the innermost outwards; BufferLoad nodes, its accesses, the store first; and nodes of types Add, Mul, Div, Max,
/// Select, Call, Cast for what it computes, with LoopColumns as features. Edges (source, target):
///   a loop, an access, an operation → its statement       what belongs to it
///   a loop → the loop around it                           order of loops
///   an access → the statement's loops that move through it
///   a statement → the access that reads what it wrote     data flow
///   a statement → the next one                            order of statements
/// Every node of a statement stands behind it and before the next statement.
class LoopGraphs : public ProgramGraphs {
 public:
  explicit LoopGraphs(const Hardware& hardware) : hardware_(hardware) {}

  /// Where `operations` is 0 they are those of the program's statements. At most 2^31 - 1 nodes and edges in all.
  void add(const LoopProgram& program, double operations) override;
  GraphBlock finish() override;

 private:
  float* add_node(uint8_t type);
  void add_edge(size_t source, size_t target);
  void add_statement(const LoopProgram& program, const StatementPlace& place);
  void add_accesses(const LoopProgram& program, const StatementShape& shape, size_t node, size_t first_loop);
  void find_places(const LoopProgram& program, double operations);

  Hardware hardware_;
  std::vector<int64_t> graph_ptr_ = {0}, edge_ptr_ = {0};
  std::vector<float> features_;
  std::vector<uint8_t> types_;
  std::vector<int32_t> sources_, targets_;
  std::vector<int32_t> writers_;  // by buffer: the node of the statement that wrote it last, or -1
  std::vector<StatementPlace> places_;
};

}  // namespace foretime::data
