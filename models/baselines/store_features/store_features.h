#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/frontends/ansor/replay/loop_nest.h"

namespace foretime::models {

/// The number of features of one buffer that a program writes, which TVM calls per-store features. In TVM's order:
/// 16 for the computation, 41 for annotated loops and threads, 18 for each of five buffers, 10 for the intensity curve,
/// 4 for the allocation, and 3 for the loops around the store.
constexpr size_t kStoreFeatures = 164;

/// Computes the features of TVM's auto_scheduler (feature.cc of TVM 0.14: L. Zheng et al., Ansor, OSDI 2020, with five
/// buffers) from loop nests. Lengths and counts x become log2(1 + x), as in TVM. Programs for GPUs are taken before TVM
/// flattens memory and injects virtual threads, so their values differ. Make one object for each thread.
class StoreFeatures {
 public:
  StoreFeatures();
  ~StoreFeatures();

  /// Appends one row of kStoreFeatures numbers to `rows` for each buffer that `nest` writes, and returns the number of
  /// rows. The buffer that is written first comes last, as usually in TVM. May add to nest.pool. `cache_line_bytes` 0
  /// means 64. Throws DataError, having appended nothing, for an invalid, unknown or too large program.
  int64_t extract(data::LoopNest& nest, int64_t cache_line_bytes, std::vector<float>& rows);

 private:
  struct Work;
  std::unique_ptr<Work> work_;
};

/// Sorts the rows of one program into a canonical order that does not depend on hash tables: within each row the five
/// buffer blocks by (lines, bytes, whole block) descending, empty ones last; then the rows in descending lexicographic
/// order. rows.size() is a multiple of kStoreFeatures.
void sort_store_features(std::span<float> rows);

}  // namespace foretime::models
