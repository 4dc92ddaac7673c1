#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/frontends/loops/loop_program.h"

namespace foretime::data {

/// What the columns of program graphs take from the machine that the programs run on.
struct Hardware {
  int64_t vector_bytes = 64;      // of a vector register: 16 SSE and NEON, 32 AVX2, 64 AVX-512
  int64_t vector_registers = 32;  // 16 up to AVX2
  int64_t cores = 1;
  int64_t l1_bytes = 48 << 10, l2_bytes = 1 << 20;  // data caches of a core
  int64_t l3_bytes = 32 << 20;                      // shared by the cores

  bool operator==(const Hardware&) const = default;
};

/// The vectors that LLVM uses for a TVM target (`llvm -mcpu=znver4`): those of its -mcpu, and SSE's without one.
Hardware hardware_of_target(std::string_view target, int64_t cores);

/// The innermost loops that a compiler multiplies out, seen from one depth: the vector loop and unrolled ones.
struct UnrolledBlock {
  size_t first = 0;      // depth of its outermost loop; the number of loops if there is none
  double copies = 1.0;   // of the statement, beside those of the vector loop
  double outputs = 1.0;  // of these, along loops that the store moves with
  double repeats = 1.0;  // along loops that it does not move with
};

/// What follows from a statement's loops and the machine, before anything is learned.
struct StatementShape {
  StatementShape(const LoopProgram& program, const ProgramStatement& statement, const Hardware& hardware);

  std::span<const LoopAccess> steps(size_t access) const { return all_steps[access]; }
  size_t loop_count() const { return loops.size(); }
  /// Elements of an access that one execution of the block touches, and vector instructions for them.
  double elements(size_t access, const UnrolledBlock& of) const;
  double instructions(size_t access, const UnrolledBlock& of) const;
  /// Whether the vector loop moves through an access from neighbour to neighbour; false without a vector loop.
  bool contiguous(size_t access) const;
  bool has_vector() const { return vector_depth < loops.size(); }
  /// Iterations of serial loops just outside of `depth` that do not move an access: it can stay in registers over them.
  double invariant(size_t access, size_t depth) const;
  /// 64-byte lines of all accesses, as bytes, from a depth on.
  double line_bytes(size_t depth) const;

  const ProgramStatement& statement;
  std::span<const ProgramLoop> loops;
  std::vector<std::span<const LoopAccess>> all_steps;  // of each access, the store first
  double lanes = 1.0, registers = 1.0;                 // float32 in a vector register; vector registers
  double iterations = 1.0;
  double parallel = 1.0;  // iterations of the parallel loops together
  bool is_parallel = false;
  double outside_parallel = 1.0;  // iterations of the loops around the outermost parallel one: how often threads start
  double critical = 1.0;          // iterations of the busiest core
  size_t vector_depth = 0;        // of the vector loop, or the number of loops
  double vector = 1.0;            // its extent
  double vector_instructions = 1.0;  // that one vector statement takes
  double operations = 0.5;           // arithmetic in one iteration, at least a half
  UnrolledBlock block;               // annotated, or unrolled by TVM
  UnrolledBlock widened;             // and what LLVM's own unroller may add to it
};

/// Counts and sizes as columns have them; 0 stays 0.
inline double log_of(double value) { return std::log2(1.0 + std::max(0.0, value)); }

/// Columns of the node features of loop graphs, one range for each kind of node: statements (BufferStore), their loops
/// (For), their accesses (BufferLoad, the store too), their operations (Add, Mul, …). The first column of a range is 1
/// for nodes of the kind, and all its columns are 0 for others. Logarithms are to base 2.
///
/// They are what a cost model for CPUs would be made of by hand: how many instructions the unrolled block takes and how
/// many registers, over how many iterations an operand can stay in a register, which loops' lines fit into which cache
/// and how many bytes must then pass for each iteration, how many cores have work. None says how large the program is,
/// but for `critical`, which models read apart, and a few that are logarithms of ratios.
struct LoopColumns {
  static constexpr int64_t kSlots = 4;  // accesses that models read one by one: the store and the first loads
  static constexpr int64_t kCaches = 4;

  // A statement.
  static constexpr int64_t statement = 0;
  static constexpr int64_t critical = 1;  // ln of the iterations of the busiest core
  static constexpr int64_t launches = 2;  // how often threads are started for it; 0 where a statement before it did
  static constexpr int64_t shape = 3;     // from here on what a cost per iteration may depend on
  static constexpr int64_t kStatement = 116;
  // A loop.
  static constexpr int64_t loop = statement + kStatement;
  static constexpr int64_t kLoop = 44;
  // An access.
  static constexpr int64_t access = loop + kLoop;
  static constexpr int64_t kAccess = 31;
  // An operation.
  static constexpr int64_t operation = access + kAccess;
  static constexpr int64_t kOperation = 2;
  static constexpr int64_t count = operation + kOperation;
};

/// Names of all columns: statement.vector.
std::vector<std::string> loop_column_names();

struct ColumnRange {
  int64_t first = 0, count = 0;
};

/// Those columns of a statement that describe the code of its vector loop and unrolled block, whatever is around it.
std::vector<ColumnRange> block_columns();

/// A statement among its neighbours.
struct StatementPlace {
  size_t index = 0, statements = 1;
  double iterations_of_all = 1.0;  // of the program's statements
  double operations = 1.0;         // of the program
  double shared_before = -1.0,
         shared_after = -1.0;  // iterations of the loops shared with the neighbour, -1: none there
  bool starts_threads = false;
};

/// Each fills a row of LoopColumns::count values that are 0.
void set_statement_columns(const StatementShape& shape, const StatementPlace& place, const Hardware& hardware,
                           float* row);
void set_loop_columns(const StatementShape& shape, size_t depth, const Hardware& hardware, float* row);
void set_access_columns(const StatementShape& shape, size_t access, const LoopProgram& program,
                        const Hardware& hardware, float* row);
void set_operation_columns(int32_t count, float* row);

}  // namespace foretime::data
