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

/// Counts and sizes as columns have them; 0 stays 0.
inline double log_of(double value) { return std::log2(1.0 + std::max(0.0, value)); }

/// Columns of the node features of loop graphs, one range for each kind of node: statements (BufferStore), their loops
/// (For), their accesses (BufferLoad, the store too), their operations (Add, Mul, …). The first column of a range is 1
/// for nodes of the kind, and all its columns are 0 for others. Statements have a second range, of the machine.
/// Logarithms are to base 2.
///
/// They are what a cost model for CPUs would be made of by hand: how many instructions the unrolled block takes and how
/// many registers, over how many iterations an operand can stay in a register, which loops' lines fit into which cache
/// and how many bytes must then pass for each iteration, how many cores have work. None says how large the program is,
/// but for `critical`, which models read apart, and a few that are logarithms of ratios.
struct LoopColumns {
  static constexpr int64_t kSlots = 4;  // accesses that models read one by one: the store and the first loads

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
  // Of statements again: the machine (data::Hardware), and the least time that it takes for an iteration.
  static constexpr int64_t machine = operation + kOperation;
  static constexpr int64_t kMachine = 12;
  static constexpr int64_t roofline = machine + kMachine - 1;  // ln of nanoseconds, data::roofline
  // Of these, what vectors and cores of a program do not change: measured, l1, l2, l3, copy.
  static constexpr std::array<int64_t, 5> of_machine_alone = {machine, machine + 4, machine + 5, machine + 6,
                                                              machine + 9};
  static constexpr int64_t count = machine + kMachine;
  static constexpr int64_t kWithoutMachine = machine;  // columns of collections and bundles of earlier versions
  // Of programs for GPUs, behind all others: of statements, and of accesses (data/frontends/loops/gpu_columns.h).
  static constexpr int64_t gpu = count;
  static constexpr int64_t kGpu = 41;
  static constexpr int64_t gpu_access = gpu + kGpu;
  static constexpr int64_t kGpuAccess = 17;
  static constexpr int64_t kWithGpu = gpu_access + kGpuAccess;
};

/// Names of so many columns: statement.vector.
std::vector<std::string> loop_column_names(int64_t columns = LoopColumns::count);

/// Values of LoopColumns::of_machine_alone.
using MachineValues = std::array<float, LoopColumns::of_machine_alone.size()>;
MachineValues machine_values(const Hardware& hardware);

/// Whether graphs with so many columns are loop graphs.
constexpr bool are_loop_columns(int64_t columns) {
  return columns == LoopColumns::count || columns == LoopColumns::kWithoutMachine || columns == LoopColumns::kWithGpu;
}
/// Loop graphs with so many columns are of programs for GPUs.
constexpr bool are_gpu_columns(int64_t columns) { return columns == LoopColumns::kWithGpu; }

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
void set_machine_columns(const StatementShape& shape, const Hardware& hardware, float* row);
void set_loop_columns(const StatementShape& shape, size_t depth, const Hardware& hardware, float* row);
void set_access_columns(const StatementShape& shape, size_t access, const LoopProgram& program, float* row);
void set_operation_columns(int32_t count, float* row);

}  // namespace foretime::data
