#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/frontends/loops/gpu_limits.h"
#include "data/frontends/loops/loop_program.h"
#include "data/frontends/loops/warp_access.h"

namespace foretime::data {

/// What a kernel takes of a GPU, before anything is learned: how many of its blocks a multiprocessor holds at once, as
/// the occupancy calculator of the CUDA toolkit counts.
struct KernelShape {
  KernelShape() = default;
  /// `accesses`: of the program, in its order.
  KernelShape(const LoopProgram& program, std::span<const WarpAccess> accesses, size_t kernel, const GpuLimits& gpu);

  double blocks = 1.0, threads = 1.0, warps = 1.0, virtual_threads = 1.0;
  double shared_bytes = 0.0;  // of a block: all that it writes, none of it put into one place
  double local_bytes = 0.0;   // of a thread: what it accumulates in registers, for all of its virtual threads
  double registers = 0.0;     // of a thread, guessed: local_bytes, and kOtherRegisters for indices and operands
  bool fits = true;           // a block has no more threads and shared memory than it may have
  /// Blocks of a multiprocessor, as each limit allows it; shared_limit is kUnlimited without shared memory.
  double thread_limit = 1.0, block_limit = 1.0, shared_limit = 1.0, register_limit = 1.0;
  double resident = 1.0;   // the least of them, 1 or more
  double occupancy = 1.0;  // warps that are there at once, of those that could be
  double waves = 1.0;      // how often all multiprocessors are filled with blocks, rounded up
  double tail = 1.0;       // of the blocks that the waves have room for, those that there are

  // Of one thread in the whole kernel: iterations of all statements, arithmetic, bytes of sectors fetched or written in
  // global memory (a warp's, divided by its threads), cycles of shared memory (likewise).
  double iterations = 1.0, operations = 1.0, global_bytes = 0.0, shared_cycles = 0.0;

  static constexpr double kOtherRegisters = 24.0, kUnlimited = 1e9;
};

/// The vector loop of a statement: its depth, or the number of loops, and its extent, or 1.
struct VectorLoop {
  size_t depth = 0;
  int64_t extent = 1;
};
VectorLoop vector_loop(const LoopProgram& program, const ProgramStatement& statement);

/// Iterations of a statement that one thread runs.
double thread_iterations(const LoopProgram& program, const ProgramStatement& statement);

/// How often a thread of a kernel makes an access: once for all elements of a vector loop that moves through it from
/// neighbour to neighbour, and a load, or what is added to, once for all iterations of the innermost loops that do not
/// move it, over which a compiler keeps it.
double thread_accesses(const LoopProgram& program, const ProgramStatement& statement, const ProgramAccess& access);

/// A GPU program's accesses and kernels, in their order. Both are empty for other programs.
struct GpuShape {
  GpuShape() = default;
  GpuShape(const LoopProgram& program, const GpuLimits& gpu);

  std::vector<WarpAccess> accesses;
  std::vector<KernelShape> kernels;
};

}  // namespace foretime::data
