#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <string>
#include <vector>

#include "data/group.h"
#include "data/program/loop_program.h"

namespace foretime::data {

/// What the columns of loop graphs take from the machine that the programs run on.
struct Hardware {
  int64_t vector_bytes = 64;      // of a vector register: 16 SSE and NEON, 32 AVX2, 64 AVX-512
  int64_t vector_registers = 32;  // 16 up to AVX2
  int64_t cores = 1;
  int64_t l1_bytes = 48 << 10, l2_bytes = 1 << 20;  // data caches of a core
};

/// The vectors that LLVM uses for a TVM target (`llvm -mcpu=znver4`): those of its -mcpu, and SSE's without one. Cores
/// are taken from `cores`.
Hardware hardware_of_target(std::string_view target, int64_t cores);

/// Columns of the node features of loop graphs. All logarithms are log2(1 + x) unless said otherwise. Columns of other
/// kinds of nodes are 0. "From here on" is: over this loop and all inside of it.
struct LoopColumns {
  // Nodes of type For: a loop of one statement.
  static constexpr int64_t is_loop = 0;
  static constexpr int64_t extent = 1;                            // log
  static constexpr int64_t kind = 2;                              // one-hot: LoopKind
  static constexpr int64_t reduction = kind + 5;                  // 0 or 1
  static constexpr int64_t unrolled = reduction + 1;              // 0 or 1
  static constexpr int64_t inner_iterations = unrolled + 1;       // log, from here on
  static constexpr int64_t innermost = inner_iterations + 1;      // 0 or 1; then the one around it
  static constexpr int64_t tile = innermost + 2;                  // what unrolled and vectorised loops make, kTile columns
  static constexpr int64_t kTile = 13;
  static constexpr int64_t working_set = tile + kTile;            // log of elements of the store and kSlots - 1 loads
  static constexpr int64_t slots = working_set + 1;               // the store, then loads of the largest buffers
  static constexpr int64_t kSlots = 3, kSlot = 9;
  // Nodes of type BufferStore: a statement.
  static constexpr int64_t is_statement = slots + kSlots * kSlot;
  static constexpr int64_t work = is_statement + 1;               // log2(iterations / operations of the program)
  static constexpr int64_t depth = work + 1;                      // number of loops / 8
  static constexpr int64_t parallel = depth + 1;                  // log of the parallel loops' iterations
  static constexpr int64_t imbalance = parallel + 1;              // log2(ceil(parallel / cores) cores / parallel)
  static constexpr int64_t vector = imbalance + 1;                // log of the vectorised loops' iterations
  static constexpr int64_t unroll_limit = vector + 1;             // log
  static constexpr int64_t initial = unroll_limit + 1;            // 0 or 1; then update
  static constexpr int64_t arithmetic = initial + 2;              // logs of counts by Arithmetic
  static constexpr int64_t loads = arithmetic + kArithmetic;      // log of their number
  static constexpr int64_t shared = loads + 1;                    // loops shared with the statement before / depth
  static constexpr int64_t attached = shared + 1;                 // log of the iterations of these
  // Nodes of type BufferLoad: an access, the store too.
  static constexpr int64_t is_access = attached + 1;
  static constexpr int64_t is_store = is_access + 1;
  static constexpr int64_t temporary = is_store + 1;              // 0 or 1
  static constexpr int64_t distinct = temporary + 1;              // log of elements touched in all
  static constexpr int64_t lines = distinct + 1;                  // log of cache lines touched in all
  static constexpr int64_t reuse = lines + 1;                     // log of iterations / elements touched
  static constexpr int64_t share = reuse + 1;                     // elements touched / elements of the buffer
  static constexpr int64_t inner_stride = share + 1;              // log of the stride of the innermost loop
  static constexpr int64_t vector_stride = inner_stride + 1;      // one-hot: 0, 1, more, of the vectorised loop
  static constexpr int64_t in_l1 = vector_stride + 3;             // log of iterations of the largest inner loop nest whose
                                                                  // lines fit; then for L2
  // Nodes of arithmetic types: all operations of one kind in one iteration of a statement.
  static constexpr int64_t is_operation = in_l1 + 2;
  static constexpr int64_t operations = is_operation + 1;         // log of their number
  static constexpr int64_t count = operations + 1;
};
std::vector<std::string> loop_column_names();

/// Loop graphs of programs, side by side: for each statement, in order, a node of type BufferStore; then For nodes, its
/// loops from the innermost outwards; BufferLoad nodes, its accesses, the store first; and nodes of types Add, Mul, Div,
/// Max, Select, Call, Cast for what it computes. Edges (source, target):
///   a loop, an access, an operation → its statement       what belongs to it
///   a loop → the loop around it                           order of loops
///   an access → the statement's loops that move through it
///   a statement → the access that reads what it wrote     data flow
///   a statement → the next one                            order of statements
/// Every node of a statement stands behind it and before the next statement.
class LoopGraphs {
 public:
  explicit LoopGraphs(Hardware hardware) : hardware_(hardware) {}

  /// `operations`: what the program computes, in arithmetic operations; 0 where unknown: then those of its statements.
  /// Throws DataError where there would be more than 2^31 - 1 nodes or edges in all.
  void add(const LoopProgram& program, double operations);
  int64_t graphs() const { return static_cast<int64_t>(graph_ptr_.size()) - 1; }
  /// The block; the object is empty then.
  GraphBlock finish();

 private:
  struct Tile;

  float* add_node(uint8_t type);
  void add_edge(size_t source, size_t target);
  void add_loops(const LoopProgram& program, const ProgramStatement& statement, size_t node);
  void set_slot(const LoopProgram& program, const ProgramAccess& access, const LoopAccess& step, double iterations,
                float* columns) const;
  void add_accesses(const LoopProgram& program, const ProgramStatement& statement, size_t node);
  void add_operations(const ProgramStatement& statement, size_t node);
  void set_statement(const LoopProgram& program, size_t statement, double operations, float* row) const;

  Hardware hardware_;
  std::vector<int64_t> graph_ptr_ = {0}, edge_ptr_ = {0};
  std::vector<float> features_;
  std::vector<uint8_t> types_;
  std::vector<int32_t> sources_, targets_;
  std::vector<int32_t> writers_;  // by buffer: the node of the statement that wrote it last, or -1
  std::vector<const ProgramAccess*> ordered_;
  std::vector<size_t> loop_nodes_;
};

}  // namespace foretime::data
