#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "data/frontends/loops/column_writer.h"
#include "data/frontends/loops/kernel_shape.h"
#include "data/frontends/loops/loop_program.h"
#include "data/frontends/loops/statement_shape.h"

namespace foretime::data {

/// Holds the memory traffic of a statement, each value for one iteration of one thread unless stated otherwise.
struct GpuTraffic {
  std::array<double, kBufferScopes> reads{};  // number of loads from each scope, those of updates included
  double sectors = 0.0;                       // 32-byte sectors of global memory that the whole warp accesses
  double global_bytes = 0.0;                  // bytes of these sectors divided by the threads of the warp
  double shared_cycles = 0.0;                 // cycles of shared memory for the warp divided by its threads
  double waste = 1.0;                         // largest ratio of fetched to used bytes of an access to global memory
  double ways = 1.0;                          // largest WarpAccess::ways of an access to shared memory
};
/// Returns the traffic of the statement of `shape`. `all` describes the kernels and accesses of `program`; `warp_size`
/// is the number of threads of a warp.
GpuTraffic gpu_traffic(const StatementShape& shape, const LoopProgram& program, const GpuShape& all, int64_t warp_size);

/// Writes the columns of a statement that only GPU programs have: the kernel that the statement belongs to (its grid,
/// blocks and warps, shared memory and registers of a block, blocks that fit a multiprocessor, and how often the grid
/// fills the GPU), and the accesses of a warp's threads (coalescing, bank conflicts, width of loads). Sources: CUDA C++
/// Programming Guide; CUDA Occupancy Calculator; the features of GPU programs in auto_scheduler's feature.cc (lengths
/// of bound loops, virtual threads); Hong and Kim, An analytical model for a GPU architecture with memory-level and
/// thread-level parallelism awareness, ISCA 2009 (bytes of warps, arithmetic of a thread). Logarithms are to base 2.
void put_gpu_statement(const StatementShape& shape, const LoopProgram& program, const KernelShape& kernel,
                       const GpuLimits& gpu, const GpuTraffic& traffic, ColumnWriter& out);
/// Writes the columns of an access that only GPU programs have; put_gpu_statement gives the sources.
void put_gpu_access(const StatementShape& shape, size_t access, const LoopProgram& program, const KernelShape& kernel,
                    const WarpAccess& touched, ColumnWriter& out);

/// Fills the GPU columns and the roofline column of a statement in a row of LoopColumns::kWithGpu zeros. The roofline
/// column is ln of gpu_roofline(), with guesses for rates that were not measured (with_rates).
void set_gpu_statement_columns(const StatementShape& shape, const LoopProgram& program, const GpuShape& all,
                               const Hardware& hardware, float* row);
/// Fills the GPU columns of an access in a row of LoopColumns::kWithGpu zeros.
void set_gpu_access_columns(const StatementShape& shape, size_t access, const LoopProgram& program, const GpuShape& all,
                            float* row);

/// Returns the least time of an iteration on one multiprocessor in nanoseconds, above 0: the largest of the times for
/// the iteration's arithmetic, for its requests to shared memory, and for its bytes of global memory at the
/// multiprocessor's share of the bandwidth. `hardware` has rates (with_rates).
double gpu_roofline(const StatementShape& shape, const LoopProgram& program, const GpuTraffic& traffic,
                    const Hardware& hardware);

}  // namespace foretime::data
