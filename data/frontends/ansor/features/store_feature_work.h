#pragma once

#include <cstdint>
#include <vector>

#include "data/frontends/ansor/features/nest_statements.h"
#include "data/frontends/ansor/features/store_feature_row.h"
#include "data/frontends/ansor/features/store_features.h"
#include "data/frontends/ansor/features/store_value.h"

namespace foretime::data {

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
