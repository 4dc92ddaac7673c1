#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/frontends/loops/gpu_limits.h"
#include "data/frontends/loops/loop_program.h"

namespace foretime::data {

/// Describes the memory accesses of one warp's threads. Global memory is fetched in sectors of 32 bytes, four of which
/// are a line of the first-level cache; shared memory has 32 banks of 4 bytes, and a request takes as many cycles as
/// the busiest bank has different words (CUDA C++ Programming Guide, "Global Memory" and "Shared Memory" of its
/// chapters on compute capabilities 5.x to 9.0). For accesses wider than 4 bytes, a request covers as many threads as
/// 128 bytes serve.
struct WarpAccess {
  double elements = 1.0;  // distinct elements
  double sectors = 1.0, lines = 1.0;
  double bytes = 4.0;   // requested bytes, also counted repeatedly
  double ways = 1.0;    // cycles of shared memory for each request: 1 without conflicts
  double cycles = 1.0;  // cycles of all requests
};

/// Returns the accesses of a warp. `lanes` holds the position of each thread's first element (one or more); each thread
/// takes `vector` elements at once, `stride` elements apart (only the first kMostVector count).
WarpAccess warp_access(std::span<const int64_t> lanes, int64_t vector, int64_t stride, int64_t element_bytes);

constexpr int64_t kSectorBytes = 32, kGpuLineBytes = 128, kBanks = 32, kBankBytes = 4, kMostVector = 16;

/// Describes how a kernel uses a GPU: blocks per multiprocessor as in the occupancy calculator of the CUDA toolkit, and
/// work per thread.
struct KernelShape {
  KernelShape() = default;
  /// Calculates the shape of kernel number `kernel`. `accesses` are those of the whole program, in order.
  KernelShape(const LoopProgram& program, std::span<const WarpAccess> accesses, size_t kernel, const GpuLimits& gpu);

  double blocks = 1.0, threads = 1.0, warps = 1.0, virtual_threads = 1.0;
  double shared_bytes = 0.0;  // per block, if all written shared buffers have separate memory
  double local_bytes = 0.0;   // per thread: accumulators in registers, for all of its virtual threads
  double registers = 0.0;     // estimate per thread: local_bytes, and kOtherRegisters for indices and operands
  bool fits = true;           // a block does not exceed its limits of threads and shared memory
  /// Hold the number of blocks per multiprocessor that each limit allows; shared_limit is kUnlimited without shared
  /// memory.
  double thread_limit = 1.0, block_limit = 1.0, shared_limit = 1.0, register_limit = 1.0;
  double resident = 1.0;   // smallest of the limits, at least 1
  double occupancy = 1.0;  // resident warps divided by the possible ones
  double waves = 1.0;      // times that all multiprocessors are filled with blocks, rounded up
  double tail = 1.0;       // number of blocks divided by the blocks that fit into the waves

  // The next members are per thread in the whole kernel: iterations of all statements, arithmetic, bytes of sectors
  // fetched from or written to global memory (a warp's, divided by its threads), and cycles of shared memory (divided
  // likewise).
  double iterations = 1.0, operations = 1.0, global_bytes = 0.0, shared_cycles = 0.0;

  static constexpr double kOtherRegisters = 24.0, kUnlimited = 1e9;
};

/// Describes the vector loop of a statement: its depth and extent; without one, the number of loops and 1.
struct VectorLoop {
  size_t depth = 0;
  int64_t extent = 1;
};
/// Returns the vector loop of a statement.
VectorLoop vector_loop(const LoopProgram& program, const ProgramStatement& statement);

/// Returns the iterations of a statement that one thread runs.
double thread_iterations(const LoopProgram& program, const ProgramStatement& statement);

/// Returns how often a thread of a kernel makes an access: once for all elements of a vector loop with stride 1, and a
/// load or accumulator once for all iterations of the innermost loops that do not move it, since a compiler keeps it in
/// a register.
double thread_accesses(const LoopProgram& program, const ProgramStatement& statement, const ProgramAccess& access);

/// Holds the accesses and kernels of a GPU program, in order; both are empty for other programs.
struct GpuShape {
  GpuShape() = default;
  GpuShape(const LoopProgram& program, const GpuLimits& gpu);

  std::vector<WarpAccess> accesses;
  std::vector<KernelShape> kernels;
};

}  // namespace foretime::data
