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

/// Describes the machine of a program for the columns of program graphs. For a GPU, `cores` are its multiprocessors,
/// and rates are those of one and of all of them.
struct Hardware {
  int64_t vector_bytes = 64;      // width of a vector register: 16 SSE and NEON, 32 AVX2, 64 AVX-512
  int64_t vector_registers = 32;  // 16 up to AVX2
  int64_t cores = 1;
  int64_t l1_bytes = 48 << 10, l2_bytes = 1 << 20;  // data caches per core
  int64_t l3_bytes = 32 << 20;                      // shared by the cores
  // Rates in 10^9 floating-point operations per second, and in 10^9 bytes copied (read and written) per second: for one
  // core, and for all `cores` together. 0: not measured.
  double multiply_add_gflop_s = 0.0, all_multiply_add_gflop_s = 0.0;
  double copy_gb_s = 0.0, all_copy_gb_s = 0.0;
  GpuLimits gpu = {};

  bool is_gpu() const { return gpu.multiprocessors > 0; }
  bool operator==(const Hardware&) const = default;
};
/// Returns the hardware with guesses for rates that were not measured: two vector multiply-adds a cycle at 2.5 GHz,
/// copies of 10 GB/s for one core and of 80 for all.
Hardware with_rates(Hardware hardware);

/// Returns the hardware with the vectors that LLVM uses for a TVM target (`llvm -mcpu=znver4`): those of its -mcpu and
/// -mattr, by default SSE's.
Hardware hardware_of_target(std::string_view target, int64_t cores);

/// Counts the caches that a nest may fit into: 0 is half of the first level, 1 to 3 are the levels.
constexpr size_t kCaches = 4;

/// Returns the hardware of a GPU target: limits and rates of its architecture; warp size and limits of a block from the
/// record's parameters or from the target (`-max_num_threads`, `-max_threads_per_block`,
/// `-max_shared_memory_per_block`, `-thread_warp_size`). Throws DataError if neither gives the number of threads of a
/// block.
Hardware gpu_of_target(std::string_view target, const HardwareParameters& parameters);

/// Describes the innermost loops that a compiler unrolls, seen from one depth: the vector loop and unrolled ones.
struct UnrolledBlock {
  size_t first = 0;      // depth of its outermost loop; the number of loops if it has none
  double copies = 1.0;   // copies of the statement, not counting those of the vector loop
  double outputs = 1.0;  // copies along loops that move the store
  double repeats = 1.0;  // copies along loops that do not move the store
};

/// Derives properties of a statement from its loops and the machine.
struct StatementShape {
  StatementShape(const LoopProgram& program, const ProgramStatement& statement, const Hardware& hardware);

  std::span<const LoopAccess> steps(size_t access) const { return all_steps[access]; }
  size_t loop_count() const { return loops.size(); }
  /// Returns the number of elements of an access that one execution of the block touches.
  double elements(size_t access, const UnrolledBlock& of) const;
  /// Returns the number of vector instructions for these elements.
  double instructions(size_t access, const UnrolledBlock& of) const;
  /// Returns whether the vector loop moves an access from neighbour to neighbour; false without a vector loop.
  bool contiguous(size_t access) const;
  bool has_vector() const { return vector_depth < loops.size(); }
  /// Returns the iterations of serial loops just outside of `depth` that do not move an access, which can stay in
  /// registers over them.
  double invariant(size_t access, size_t depth) const;
  /// Returns the bytes of all accesses' 64-byte lines, from a depth on.
  double line_bytes(size_t depth) const;
  /// Returns the iterations of the loops from `first` to before `last`.
  double iterations_of(size_t first, size_t last) const;
  /// Returns the bytes that an access moves into a cache during the whole statement, if loops from `fitting` on fit
  /// into the cache: its lines in the smallest nest that does not fit, or in the whole nest, each time that nest runs.
  double traffic(size_t access, size_t fitting) const;

  const ProgramStatement& statement;
  std::span<const ProgramLoop> loops;
  std::vector<std::span<const LoopAccess>> all_steps;  // [accesses], the store first
  double lanes = 1.0, registers = 1.0;                 // float32 in a vector register; vector registers
  double iterations = 1.0;
  double parallel = 1.0;  // product of the parallel loops
  bool is_parallel = false;
  double outside_parallel = 1.0;  // iterations of the loops around the outermost parallel one: how often threads start
  double critical = 1.0;          // iterations of the busiest core
  size_t vector_depth = 0;        // depth of the vector loop, or the number of loops
  double vector = 1.0;            // extent of the vector loop, or 1
  double vector_instructions = 1.0;  // instructions for one vector statement
  double operations = 0.5;           // arithmetic in one iteration, at least a half
  UnrolledBlock block;               // annotated, or unrolled by TVM
  UnrolledBlock widened;             // block including loops that LLVM may unroll
  // Per cache: the outermost depth from which on all lines of the statement fit into it.
  std::array<size_t, kCaches> fitting = {};
};

}  // namespace foretime::data
