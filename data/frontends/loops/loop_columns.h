#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "data/frontends/loops/loop_program.h"
#include "data/frontends/loops/statement_shape.h"

namespace foretime::data {

/// Returns log2 of a count or size plus 1; 0 for negative values.
inline double log_of(double value) { return std::log2(1.0 + std::max(0.0, value)); }

/// Defines the columns of the node features of loop graphs, one range for each kind of node: statements (BufferStore),
/// their loops (For), their accesses (BufferLoad, the store too), their operations (Add, Mul, …). The first column of a
/// range is 1 for nodes of the kind, and all its columns are 0 for others. Statements have a second range, of the
/// machine. Logarithms are to base 2.
///
/// They are the inputs of a hand-written cost model for CPUs, such as registers of the unrolled block and bytes from
/// each cache. None depends on the program's size, except `critical` and a few logarithms of ratios.
struct LoopColumns {
  static constexpr int64_t kSlots = 4;  // accesses that models read separately: the store and the first loads

  // Columns of statements.
  static constexpr int64_t statement = 0;
  static constexpr int64_t critical = 1;  // ln of the iterations of the busiest core
  // Times that threads are started for the statement; 0 if an earlier statement started them.
  static constexpr int64_t launches = 2;
  static constexpr int64_t shape = 3;  // first of the columns that a cost per iteration may depend on
  static constexpr int64_t kStatement = 116;
  // Columns of loops.
  static constexpr int64_t loop = statement + kStatement;
  static constexpr int64_t kLoop = 44;
  // Columns of accesses.
  static constexpr int64_t access = loop + kLoop;
  static constexpr int64_t kAccess = 31;
  // Columns of operations.
  static constexpr int64_t operation = access + kAccess;
  static constexpr int64_t kOperation = 2;
  // More columns of statements: the machine (data::Hardware) and the least time of an iteration.
  static constexpr int64_t machine = operation + kOperation;
  static constexpr int64_t kMachine = 12;
  static constexpr int64_t roofline = machine + kMachine - 1;  // ln of nanoseconds (data::roofline)
  // Machine columns that do not depend on a program's vectors and cores: measured, l1, l2, l3, copy.
  static constexpr std::array<int64_t, 5> of_machine_alone = {machine, machine + 4, machine + 5, machine + 6,
                                                              machine + 9};
  static constexpr int64_t count = machine + kMachine;
  // Additional columns of programs for GPUs, behind all others: of statements, and of accesses
  // (data/frontends/loops/gpu_columns.h).
  static constexpr int64_t gpu = count;
  static constexpr int64_t kGpu = 41;
  static constexpr int64_t gpu_access = gpu + kGpu;
  static constexpr int64_t kGpuAccess = 17;
  static constexpr int64_t kWithGpu = gpu_access + kGpuAccess;
};

/// Returns the names of the first `columns` columns, such as statement.vector; all kWithGpu names above count.
std::vector<std::string> loop_column_names(int64_t columns = LoopColumns::count);

/// Holds the values of LoopColumns::of_machine_alone.
using MachineValues = std::array<float, LoopColumns::of_machine_alone.size()>;
/// Returns the values that these columns have in graphs of programs for `hardware`.
MachineValues machine_values(const Hardware& hardware);

/// Returns whether graphs with this number of columns are loop graphs.
constexpr bool are_loop_columns(int64_t columns) {
  return columns == LoopColumns::count || columns == LoopColumns::kWithGpu;
}
/// Returns whether loop graphs with this number of columns are of programs for GPUs.
constexpr bool are_gpu_columns(int64_t columns) { return columns == LoopColumns::kWithGpu; }

/// Holds the columns first … first + count - 1.
struct ColumnRange {
  int64_t first = 0, count = 0;
};

/// Returns the columns of statements that describe the code of the vector loop and unrolled block, whatever the loops
/// around them are: statement.vector*, statement.scalar and statement.block.*, ascending.
std::vector<ColumnRange> block_columns();

/// Describes the position of a statement in its program.
struct StatementPlace {
  size_t index = 0, statements = 1;  // the statement's index, and the number of the program's statements
  double iterations_of_all = 1.0;    // sum of the iterations of the program's statements
  double operations = 1.0;           // arithmetic operations of the program
  double shared_before = -1.0;       // iterations of the loops shared with the previous statement; -1: first statement
  double shared_after = -1.0;        // iterations of the loops shared with the next statement; -1: last statement
  bool starts_threads = false;       // no earlier statement is in the parallel loop, or in the kernel just before
};

/// Fills the columns of a statement, without the machine columns, in a row of LoopColumns::count zeros.
void set_statement_columns(const StatementShape& shape, const StatementPlace& place, const Hardware& hardware,
                           float* row);
/// Fills the machine columns of a statement, the roofline included, in a row of LoopColumns::count zeros.
void set_machine_columns(const StatementShape& shape, const Hardware& hardware, float* row);
/// Fills the columns of the loop at `depth` (0: outermost) in a row of LoopColumns::count zeros.
void set_loop_columns(const StatementShape& shape, size_t depth, const Hardware& hardware, float* row);
/// Fills the columns of access number `access` of a statement (0: the store) in a row of LoopColumns::count zeros.
void set_access_columns(const StatementShape& shape, size_t access, const LoopProgram& program, float* row);
/// Fills the columns of `count` equal operations of a statement in a row of LoopColumns::count zeros.
void set_operation_columns(int32_t count, float* row);

}  // namespace foretime::data
