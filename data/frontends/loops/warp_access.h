#pragma once

#include <cstdint>
#include <span>

namespace foretime::data {

/// What the threads of one warp touch with one access, as memory sees it. Global memory is fetched in sectors of 32
/// bytes, four of which are a line of the first-level cache; shared memory has 32 banks of 4 bytes, and as many cycles
/// pass as the busiest bank has different words to give (CUDA C++ Programming Guide, "Global Memory" and "Shared
/// Memory" of its chapters on compute capabilities 5.x to 9.0). Of accesses wider than 4 bytes, one request is of as
/// many threads as 128 bytes take.
struct WarpAccess {
  double elements = 1.0;  // that differ
  double sectors = 1.0, lines = 1.0;
  double bytes = 4.0;   // that threads ask for, each counted where several ask for one
  double ways = 1.0;    // cycles of shared memory for each request: 1 without conflicts
  double cycles = 1.0;  // of all requests
};

/// `lanes`: position of each thread's first element, one or more; `vector`: elements that each takes at once, `stride`
/// elements apart (more than kMostVector are not looked at).
WarpAccess warp_access(std::span<const int64_t> lanes, int64_t vector, int64_t stride, int64_t element_bytes);

constexpr int64_t kSectorBytes = 32, kGpuLineBytes = 128, kBanks = 32, kBankBytes = 4, kMostVector = 16;

}  // namespace foretime::data
