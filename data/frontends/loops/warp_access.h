#pragma once

#include <cstdint>
#include <span>

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

}  // namespace foretime::data
