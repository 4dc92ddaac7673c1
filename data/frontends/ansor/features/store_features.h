#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/frontends/ansor/replay/loop_nest.h"

namespace foretime::data {

/// Features of one buffer, which is written by one stage: TVM calls them per-store features. In TVM's order: 16 of the
/// computation, 41 of annotated loops and threads, 18 of each of five buffers, 10 of the intensity curve, 4 of the
/// allocation, and 3 of the loops around.
constexpr size_t kStoreFeatures = 164;

/// The features of TVM's auto_scheduler (feature.cc of TVM 0.14: L. Zheng et al., Ansor, OSDI 2020, with five buffers),
/// computed from loop nests. Lengths and counts x are log2(1 + x), as there. Keeps memory from nest to nest; one object
/// a thread.
///
/// Programs for GPUs are taken before TVM flattens their memory and injects virtual threads: their features are of the
/// same kind but not TVM's.
class StoreFeatures {
 public:
  StoreFeatures();
  ~StoreFeatures();

  /// Appends one row of kStoreFeatures numbers for each buffer that `nest` computes, in the order in which TVM's hash
  /// table usually gives them: the last one first. Adds to the pool of `nest`. `cache_line_bytes` 0 stands for 64.
  /// Returns the number of rows. Throws DataError, having appended nothing, where the nest is not a valid program or an
  /// expression of its DAG is not known.
  int64_t extract(LoopNest& nest, int64_t cache_line_bytes, std::vector<float>& rows);

 private:
  struct Work;
  std::unique_ptr<Work> work_;
};

/// Puts the rows of one program into the order of FORMATS (features_golden.npz), which does not depend on hash tables:
/// within each row the five buffer blocks by (lines, bytes, whole block) descending, empty ones last; then the rows in
/// descending lexicographic order. rows.size() is a multiple of kStoreFeatures.
void sort_store_features(std::span<float> rows);

}  // namespace foretime::data
