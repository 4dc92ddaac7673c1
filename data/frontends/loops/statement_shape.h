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

/// What the columns of program graphs take from the machine that the programs run on. Of a GPU, `cores` are its
/// multiprocessors and rates those of one and of all of them.
struct Hardware {
  int64_t vector_bytes = 64;      // of a vector register: 16 SSE and NEON, 32 AVX2, 64 AVX-512
  int64_t vector_registers = 32;  // 16 up to AVX2
  int64_t cores = 1;
  int64_t l1_bytes = 48 << 10, l2_bytes = 1 << 20;  // data caches of a core
  int64_t l3_bytes = 32 << 20;                      // shared by the cores
  // 10^9 floating-point operations, and bytes copied (read and written), a second: of one core, and of all `cores`
  // together. 0: not measured.
  double multiply_add_gflop_s = 0.0, all_multiply_add_gflop_s = 0.0;
  double copy_gb_s = 0.0, all_copy_gb_s = 0.0;
  GpuLimits gpu = {};

  bool is_gpu() const { return gpu.multiprocessors > 0; }
  bool operator==(const Hardware&) const = default;
};
/// The rates, guessed where they were not measured: two multiply-adds of a vector a cycle at 2.5 GHz, copies of 10 GB/s
/// for one core and of 80 for all.
Hardware with_rates(Hardware hardware);

/// The vectors that LLVM uses for a TVM target (`llvm -mcpu=znver4`): those of its -mcpu and
/// -mattr, and SSE's without these.
Hardware hardware_of_target(std::string_view target, int64_t cores);

/// Caches that a nest may fit into: 0 half of the first level, 1 to 3 the levels.
constexpr size_t kCaches = 4;

/// The GPU of a GPU's target: limits and rates of its architecture; warps and what a block may have as the record's
/// parameters say, or the target (`-max_num_threads`, `-max_threads_per_block`, `-max_shared_memory_per_block`,
/// `-thread_warp_size`). Throws DataError where neither says how many threads a block may have.
Hardware gpu_of_target(std::string_view target, const HardwareParameters& said);

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
  /// Iterations of the loops from `first` to before `last`.
  double iterations_of(size_t first, size_t last) const;
  /// Bytes that an access moves into a cache in the whole statement, where loops from `fitting` on fit into it: its
  /// lines in the smallest nest that does not fit, or all that does, each time that nest runs.
  double traffic(size_t access, size_t fitting) const;

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
  // By cache: the outermost depth from which on all lines of the statement fit into it.
  std::array<size_t, kCaches> fitting = {};
};

}  // namespace foretime::data
