#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/frontends/loops/gpu_limits.h"
#include "data/frontends/loops/loop_program.h"

namespace foretime::data {

/// Describes one access (a load or store) as all threads of a warp make it together. Global memory is fetched in
/// sectors of 32 bytes, four of which are a line of the first-level cache; shared memory has 32 banks of 4 bytes, and a
/// request takes as many cycles as the busiest bank has different words (CUDA C++ Programming Guide, "Global Memory"
/// and "Shared Memory" of its chapters on compute capabilities 5.x to 9.0). For accesses wider than 4 bytes, a request
/// covers as many threads as 128 bytes serve.
struct WarpAccess {
  double elements = 1.0;              // distinct elements
  double sectors = 1.0, lines = 1.0;  // distinct 32-byte sectors and 128-byte lines
  double bytes = 4.0;                 // requested bytes; those that several threads request count for each of them
  double ways = 1.0;                  // mean cycles of shared memory for a request: 1 without bank conflicts
  double cycles = 1.0;                // cycles of shared memory for all requests
};

/// Returns the access of a warp. `lanes` holds the position of each thread's first element in the buffer, for 1 to
/// kMostLanes threads. Each thread takes `vector` elements, `stride` elements apart; only the first kMostVector count.
WarpAccess warp_access(std::span<const int64_t> lanes, int64_t vector, int64_t stride, int64_t element_bytes);

constexpr int64_t kSectorBytes = 32, kGpuLineBytes = 128, kBanks = 32, kBankBytes = 4, kMostVector = 16;

/// Describes how a kernel uses a GPU: blocks per multiprocessor as in CUDA's Occupancy Calculator, and a thread's work.
struct KernelShape {
  KernelShape() = default;
  /// Calculates the shape of kernel number `kernel`. `accesses` has one entry for each of program.accesses.
  KernelShape(const LoopProgram& program, std::span<const WarpAccess> accesses, size_t kernel, const GpuLimits& gpu);

  double blocks = 1.0;                // blocks of the kernel
  double threads = 1.0, warps = 1.0;  // threads and warps of a block
  double virtual_threads = 1.0;       // virtual threads that each thread runs
  double shared_bytes = 0.0;          // per block, if all written shared buffers have separate memory
  double local_bytes = 0.0;           // per thread: accumulators in registers, for all of its virtual threads
  double registers = 0.0;             // estimate per thread: local_bytes, and kOtherRegisters for indices and operands
  bool fits = true;                   // a block does not exceed its limits of threads and shared memory
  /// Hold the number of blocks per multiprocessor that each limit allows: of threads, blocks, shared memory (kUnlimited
  /// if the kernel has none) and registers.
  double thread_limit = 1.0, block_limit = 1.0, shared_limit = 1.0, register_limit = 1.0;
  double resident = 1.0;   // blocks per multiprocessor at once: the smallest of these limits, at least 1
  double occupancy = 1.0;  // resident warps divided by the possible ones
  double waves = 1.0;      // times that all multiprocessors are filled with blocks, rounded up
  double tail = 1.0;       // number of blocks divided by the blocks that fit into the waves

  double iterations = 1.0;     // iterations of all statements in one thread, at least 1
  double operations = 1.0;     // arithmetic of one thread in the whole kernel, at least 1
  double global_bytes = 0.0;   // bytes of the sectors of global memory that a warp accesses, divided by its threads
  double shared_cycles = 0.0;  // cycles of shared memory that a warp takes, divided by its threads

  static constexpr double kOtherRegisters = 24.0, kUnlimited = 1e9;
};

/// Describes the vector loop of a statement.
struct VectorLoop {
  size_t depth = 0;    // number of loops around it; without a vector loop, the number of the statement's loops
  int64_t extent = 1;  // iterations; without a vector loop 1
};
/// Returns the innermost vectorised loop of a statement.
VectorLoop vector_loop(const LoopProgram& program, const ProgramStatement& statement);

/// Returns the number of iterations of a statement that one thread runs, those of its virtual threads included.
double thread_iterations(const LoopProgram& program, const ProgramStatement& statement);

/// Returns how often a thread makes an access of a statement. All elements of a vector loop with stride 1 or -1 are one
/// access. So are all iterations of the innermost loops that do not move a load or accumulator, since a compiler keeps
/// the value in a register.
double thread_accesses(const LoopProgram& program, const ProgramStatement& statement, const ProgramAccess& access);

/// Holds the accesses and kernels of a GPU program, in order; both are empty for other programs.
struct GpuShape {
  GpuShape() = default;
  GpuShape(const LoopProgram& program, const GpuLimits& gpu);

  std::vector<WarpAccess> accesses;  // an entry for each of LoopProgram::accesses
  std::vector<KernelShape> kernels;  // an entry for each of LoopProgram::kernels
};

}  // namespace foretime::data
