#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "data/frontends/loops/column_writer.h"
#include "data/frontends/loops/kernel_shape.h"
#include "data/frontends/loops/loop_program.h"
#include "data/frontends/loops/statement_shape.h"

namespace foretime::data {

/// What the accesses of a statement come to in one iteration of one thread; all 0 and 1 without accesses.
struct GpuTraffic {
  std::array<double, kBufferScopes> reads{};  // accesses that read each scope
  double sectors = 0.0;                       // of 32 bytes, that its whole warp asks of global memory
  double global_bytes = 0.0;                  // of these sectors, the thread's part
  double shared_cycles = 0.0;                 // of shared memory, the thread's part
  double waste = 1.0, ways = 1.0;  // of the worst access: bytes fetched for each that is used, bank conflicts
};
/// `all`: of the whole program, with as many kernels and accesses as it has; `warp_size`: threads.
GpuTraffic gpu_traffic(const StatementShape& shape, const LoopProgram& program, const GpuShape& all, int64_t warp_size);

/// Columns of statements and of accesses that programs for GPUs have besides those of all loop graphs: the kernel that
/// a statement belongs to (its grid, blocks and warps, what a block takes of shared memory and registers, how many
/// blocks a multiprocessor holds and how often the grid fills the GPU), and what the threads of a warp touch
/// (coalescing, bank conflicts, width of loads). Sources: CUDA C++ Programming Guide; CUDA Occupancy Calculator; the
/// features of GPU programs in auto_scheduler's feature.cc (lengths of bound loops, virtual threads); Hong and Kim, An
/// analytical model for a GPU architecture with memory-level and thread-level parallelism awareness, ISCA 2009 (bytes
/// that warps move, arithmetic of a thread). Logarithms are to base 2.
void put_gpu_statement(const StatementShape& shape, const LoopProgram& program, const KernelShape& kernel,
                       const GpuLimits& gpu, const GpuTraffic& traffic, ColumnWriter& out);
void put_gpu_access(const StatementShape& shape, size_t access, const LoopProgram& program, const KernelShape& kernel,
                    const WarpAccess& touched, ColumnWriter& out);

/// Each fills its columns in a row of LoopColumns::kWithGpu values that are 0. Statements get the least time of an
/// iteration on one multiprocessor for roofline: the largest of what its arithmetic takes, its requests to shared
/// memory, and its share of the bandwidth of global memory.
void set_gpu_statement_columns(const StatementShape& shape, const LoopProgram& program, const GpuShape& all,
                               const Hardware& hardware, float* row);
void set_gpu_access_columns(const StatementShape& shape, size_t access, const LoopProgram& program, const GpuShape& all,
                            float* row);

/// Nanoseconds; above 0.
double gpu_roofline(const StatementShape& shape, const LoopProgram& program, const GpuTraffic& traffic,
                    const Hardware& hardware);

}  // namespace foretime::data
