#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "models/baselines/store_features/store_features.h"

namespace foretime::models {

constexpr size_t kCurvePoints = 10;  // points of BufferFeatures::curve

/// Describes the loops around a store that have one annotation, such as vectorize.
struct Annotated {
  float number = 0.0F;   // number of these loops
  float product = 0.0F;  // product of their iterations
  float length = 0.0F;   // iterations of the innermost one
};

/// Holds the features of one buffer that a store accesses.
struct BlockFeatures {
  bool read = false, written = false;
  float bytes = 0.0F, unique_bytes = 0.0F;  // bytes accessed in all iterations; size of the accessed region
  float lines = 0.0F, unique_lines = 0.0F;  // the same in cache lines
  int reuse = 2;  // the buffer is accessed again by 0: iterations of a loop, 1: another statement, 2: nothing
  float distance_iterations = 0.0F, distance_bytes = 0.0F;  // iterations and bytes until that access
  float reuse_count = 0.0F;  // reuse 0: iterations of that loop; 1: other accesses in the common loop; 2: 0
  float stride = 0.0F;       // elements between accesses of the innermost loop; 0 if the loop does not move the access
};

/// Holds the features of one written buffer; the initial and the update store of a reduction have them in common.
struct BufferFeatures {
  std::array<float, 16> operations{};  // operations of each class in all iterations
  Annotated vectorized, unrolled, parallel;
  bool gpu = false;
  std::array<float, 7> threads{1, 1, 1, 1, 1, 1, 1};  // blockIdx.x y z, threadIdx.x y z, vthread
  std::vector<BlockFeatures> blocks;                  // an entry for each accessed buffer
  std::array<float, kCurvePoints> curve{};            // operations per byte after 1/10, 2/10, … of all operations
  float alloc_size = 0.0F;                            // bytes of the buffer
  float alloc_product = 0.0F;                         // elements of the buffer, times alloc_outer
  float alloc_outer = 0.0F;                           // product of the iterations of the loops around the allocation
  float alloc_inner = 0.0F;                           // outer_product / alloc_outer
  float outer_product = 0.0F;                         // product of the iterations of the loops around the store
  float loops = 0.0F, unroll_step = 0.0F;  // number of these loops; value of the innermost unroll pragma, or 0
};

/// Appends kStoreFeatures numbers to `row`. Sorts buffer.blocks by (lines, bytes) descending; the first five are used.
void append_store_features(BufferFeatures& buffer, std::vector<float>& row);

}  // namespace foretime::models
