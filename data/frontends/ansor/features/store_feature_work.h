#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "data/frontends/ansor/features/nest_statements.h"
#include "data/frontends/ansor/features/store_features.h"
#include "data/frontends/ansor/features/store_value.h"

namespace foretime::data {

constexpr size_t kFeatureBuffers = 5, kBufferFeatures = 18, kCurvePoints = 10;

/// What annotated loops around a store are like: number, product of lengths, length of the innermost.
struct Annotated {
  float number = 0.0F, product = 0.0F, length = 0.0F;
};

struct BlockFeatures {
  bool read = false, written = false;
  float bytes = 0.0F, unique_bytes = 0.0F, lines = 0.0F, unique_lines = 0.0F;
  int reuse = 2;  // 0: a loop reads it several times, 1: several statements do, 2: none
  float distance_iterations = 0.0F, distance_bytes = 0.0F, reuse_count = 0.0F, stride = 0.0F;
};

/// What is known of one buffer; a start of a reduction and its update share it.
struct BufferFeatures {
  int32_t stage = 0;
  std::array<float, 16> operations{};
  Annotated vectorized, unrolled, parallel;
  bool gpu = false;
  std::array<float, 7> threads{1, 1, 1, 1, 1, 1, 1};  // blockIdx.x y z, threadIdx.x y z, vthread
  std::vector<BlockFeatures> blocks;
  std::array<float, kCurvePoints> curve{};
  float alloc_size = 0.0F, alloc_product = 0.0F, alloc_outer = 0.0F, alloc_inner = 0.0F;
  float outer_product = 0.0F, loops = 0.0F, unroll_step = 0.0F;
};

/// Appends kStoreFeatures numbers; puts the blocks of `buffer` into TVM's order.
void append_store_features(BufferFeatures& buffer, std::vector<float>& rows);

/// What StoreFeatures keeps, and how a store becomes features.
struct StoreFeatures::Work {
  Work() : values(forms) {}

  /// What one statement touches of a buffer in one run of a loop.
  struct Touch {
    int32_t stage;
    int64_t elements, element_bytes;
  };

  void extract(LoopNest& nest, int64_t cache_line);
  void enter(const NestNode& store);
  void store(const NestNode& node);
  void computation(BufferFeatures& buffer);
  int64_t run_inside(size_t i);
  void regions();
  void blocks(BufferFeatures& buffer);
  void reuse(const BufferAccess& access, BlockFeatures& block);
  void curve(BufferFeatures& buffer);
  void allocation(const NestNode& node);
  BufferFeatures& buffer_of(int32_t stage);
  int64_t stride(const BufferAccess& access, int32_t variable) const;
  bool mentions(const BufferAccess& access, int32_t variable) const;
  float product_of(size_t loops_around) const;
  const NestNode& loop(size_t i) const { return statements.nodes[static_cast<size_t>(loops[i])]; }
  int64_t element_bytes(int32_t stage) const { return type_bytes[static_cast<size_t>(stage)]; }

  AffinePool no_pool;
  PostfixExpressions forms{no_pool};
  StoreValues values;
  NestStatements statements;
  StoreValue value;
  LoopNest* nest = nullptr;
  int64_t cache_line = 64;  // bytes

  std::vector<BufferFeatures> buffers;  // in the order of their first store
  size_t used = 0;
  std::vector<int32_t> place_of_stage;      // in buffers, -1
  std::vector<int64_t> type_bytes;          // [stages]
  std::vector<std::vector<Touch>> touches;  // [nodes] of loops
  bool gpu = false;

  // Of the store looked at:
  std::vector<int32_t> loops;  // nodes around it, outermost first
  bool constant_lengths = true;
  float outer_product = 1.0F;
  int64_t unroll_step = 0;
  std::vector<int64_t> largest;           // [variables] values of the loop variables go up to this
  std::vector<int64_t> region;            // of the written buffer over all loops, by dimension
  std::vector<float> memory, operations;  // bytes touched and operations done in each loop, innermost first
  std::vector<float> row;
};

}  // namespace foretime::data
