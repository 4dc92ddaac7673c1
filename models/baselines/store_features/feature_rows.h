#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "models/baselines/store_features/store_features.h"

namespace foretime::models {

constexpr size_t kCurvePoints = 10;

/// Describes the loops around a store that have one annotation.
struct Annotated {  // number of loops, product of their lengths, innermost length
  float number = 0.0F, product = 0.0F, length = 0.0F;
};

/// Holds the features of one buffer that a store accesses.
struct BlockFeatures {
  bool read = false, written = false;
  float bytes = 0.0F, unique_bytes = 0.0F, lines = 0.0F, unique_lines = 0.0F;
  int reuse = 2;  // 0: a loop reads it several times, 1: several statements do, 2: none
  float distance_iterations = 0.0F, distance_bytes = 0.0F, reuse_count = 0.0F, stride = 0.0F;
};

/// Holds the features of one written buffer; the initial and the update store of a reduction share them.
struct BufferFeatures {
  std::array<float, 16> operations{};
  Annotated vectorized, unrolled, parallel;
  bool gpu = false;
  std::array<float, 7> threads{1, 1, 1, 1, 1, 1, 1};  // blockIdx.x y z, threadIdx.x y z, vthread
  std::vector<BlockFeatures> blocks;
  std::array<float, kCurvePoints> curve{};
  float alloc_size = 0.0F, alloc_product = 0.0F, alloc_outer = 0.0F, alloc_inner = 0.0F;
  float outer_product = 0.0F, loops = 0.0F, unroll_step = 0.0F;
};

/// Appends kStoreFeatures numbers to `row`, and sorts the blocks of `buffer` in TVM's order.
void append_store_features(BufferFeatures& buffer, std::vector<float>& row);

}  // namespace foretime::models
