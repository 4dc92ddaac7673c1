#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "data/frontends/ansor/records/record.h"
#include "data/frontends/loops/gpu_limits.h"
#include "data/frontends/loops/loop_program.h"

namespace foretime::data {

/// Describes the machine of a program for the columns of program graphs. For a GPU, a core is a multiprocessor.
struct Hardware {
  int64_t vector_bytes = 64;      // width of a vector register: 16 for SSE and NEON, 32 for AVX2, 64 for AVX-512
  int64_t vector_registers = 32;  // number of vector registers: 16 up to AVX2
  int64_t cores = 1;
  int64_t l1_bytes = 48 << 10, l2_bytes = 1 << 20;  // data caches of a core
  int64_t l3_bytes = 32 << 20;                      // cache shared by the cores
  // Rates in 10^9 floating-point operations per second, and in 10^9 bytes copied (read and written) per second: for one
  // core, and for all `cores` together. 0: not measured.
  double multiply_add_gflop_s = 0.0, all_multiply_add_gflop_s = 0.0;
  double copy_gb_s = 0.0, all_copy_gb_s = 0.0;
  GpuLimits gpu = {};

  bool is_gpu() const { return gpu.multiprocessors > 0; }
  bool operator==(const Hardware&) const = default;
};
/// Returns the hardware with guesses for the rates that are 0. For a CPU: two vector multiply-adds a cycle at 2.5 GHz
/// in each core, copies of 10 GB/s a core, at most 80 GB/s for all. For a GPU: the rates of a V100's multiprocessors.
Hardware with_rates(Hardware hardware);

/// Returns the hardware of a CPU with the vectors that LLVM uses for a TVM target (`llvm -mcpu=znver4`): those of its
/// -mcpu= and -mattr=, by default SSE's. `cores` below 1 means 1; caches have the default sizes.
Hardware hardware_of_target(std::string_view target, int64_t cores);

/// Counts the caches that a nest may fit into: 0 is half of the first level, 1 to 3 are the levels.
constexpr size_t kCaches = 4;

/// Returns the hardware of a GPU target: limits and rates of its architecture (architecture_of_target). Three limits
/// are taken from `parameters`, those of a record, where they are above 0, otherwise from options of the target:
/// threads of a block (`-max_threads_per_block`, `-max_num_threads`), shared memory of a block
/// (`-max_shared_memory_per_block`) and warp size (`-thread_warp_size`, at most kMostLanes). Throws DataError if
/// neither gives the threads of a block.
Hardware gpu_of_target(std::string_view target, const HardwareParameters& parameters);

/// Describes the innermost loops that a compiler unrolls, seen from one depth: the vector loop and unrolled ones.
struct UnrolledBlock {
  size_t first = 0;      // depth of the block's outermost loop; the number of loops if the block has none
  double copies = 1.0;   // copies of the statement: product of the loops' extents without the vector loop's
  double outputs = 1.0;  // product of the extents of the loops that move the store, without the vector loop's
  double repeats = 1.0;  // product of the extents of the other loops, without the vector loop's
};

/// Holds properties of a statement on a machine. A depth is the number of loops around a loop; access 0 is the store.
struct StatementShape {
  /// Describes a statement of `program`; both must outlive this object.
  StatementShape(const LoopProgram& program, const ProgramStatement& statement, const Hardware& hardware);

  /// Returns how each loop moves an access, outermost loop first.
  std::span<const LoopAccess> steps(size_t access) const { return all_steps[access]; }
  size_t loop_count() const { return loops.size(); }
  /// Returns the number of elements of an access that one execution of the loops of `unrolled` touches.
  double elements(size_t access, const UnrolledBlock& unrolled) const;
  /// Returns the instructions for these elements: vector instructions if contiguous(access), otherwise one for each.
  double instructions(size_t access, const UnrolledBlock& unrolled) const;
  /// Returns whether the vector loop moves an access from neighbour to neighbour; false without a vector loop.
  bool contiguous(size_t access) const;
  bool has_vector() const { return vector_depth < loops.size(); }
  /// Returns the product of the extents of the loops just outside of `depth`, up to the first loop that is parallel or
  /// moves the access: the access can stay in a register over their iterations.
  double invariant(size_t access, size_t depth) const;
  /// Returns the bytes of the 64-byte lines of all accesses that one execution of the loops from `depth` on touches.
  double line_bytes(size_t depth) const;
  /// Returns the product of the extents of the loops at the depths first … last - 1; 1 for no loops.
  double iterations_of(size_t first, size_t last) const;
  /// Returns the bytes that an access moves into a cache during the whole statement, if the loops from `fitting` on fit
  /// into the cache: the bytes of the access's lines in the loops from fitting - 1 on (all loops if `fitting` is 0),
  /// times the number of times that these loops run. Returns 0 without loops.
  double traffic(size_t access, size_t fitting) const;

  const ProgramStatement& statement;
  std::span<const ProgramLoop> loops;
  std::vector<std::span<const LoopAccess>> all_steps;  // [accesses], the store first
  double lanes = 1.0, registers = 1.0;  // float32 values of a vector register; number of vector registers
  double iterations = 1.0;              // product of the extents of all loops
  double parallel = 1.0;                // product of the extents of the parallel loops
  bool is_parallel = false;             // the statement is in a parallel loop
  double outside_parallel = 1.0;  // iterations of the loops around the outermost parallel one: how often threads start
  double critical = 1.0;          // iterations that the busiest core runs
  size_t vector_depth = 0;        // depth of the vector loop; the number of loops if there is none
  double vector = 1.0;            // extent of the vector loop; 1 if there is none
  double vector_instructions = 1.0;  // instructions that one operation on all iterations of the vector loop takes
  double operations = 0.5;  // arithmetic operations in one iteration, at least 0.5; calls and casts do not count
  UnrolledBlock block;      // the loops that are annotated as unrolled or that TVM unrolls
  UnrolledBlock widened;    // the loops and further ones that LLVM may unroll
  std::array<size_t, kCaches> fitting =
      {};  // indexed by cache: least depth from which on all lines of the loops fit into it
};

/// Returns the least time of one iteration of a statement on the busiest core, in nanoseconds, above 0: the largest of
/// the times for its arithmetic at the rate of multiply-adds, for its accesses at two a cycle, and for each cache's
/// traffic at that cache's rate (the roofline model of Williams, Waterman and Patterson, Communications of the ACM
/// 52(4), 2009, with a roof for each level as in Ilic, Pratas and Sousa, IEEE Computer Architecture Letters 13(1),
/// 2014). Data that fit into a cache are assumed to be there already: measurements repeat a program. `machine` is the
/// hardware that `shape` was made with, with all rates set (with_rates).
double roofline(const StatementShape& shape, const Hardware& machine);

}  // namespace foretime::data
