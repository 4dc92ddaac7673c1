#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/frontends/ansor/replay/affine.h"
#include "data/frontends/loops/loop_program.h"

namespace foretime::data {

/// A variable of an index, as a loop counts it.
struct IndexLoop {
  int32_t variable = 0;  // its number in the AffinePool
  int64_t extent = 1;
};

/// What an index does in each of the loops around it. Fused loops, whose variable occurs as f, floor(f / c) and f mod
/// c, are taken apart into digits exactly; other indices that are not linear are looked at in some iterations. One
/// object a thread: it keeps memory.
class AccessPattern {
 public:
  /// Appends one LoopAccess for each loop (outermost first) to `out`. `index` is the element's position in a buffer of
  /// `elements` elements of `element_bytes` bytes; what it holds beside the variables of `loops` counts as constant.
  /// Footprints are exact for sums of strides in which each stride is a multiple of the one below it that overlaps it,
  /// which indices of dense arrays and of windows that slide over them are.
  void append(const AffinePool& pool, const Affine& index, std::span<const IndexLoop> loops, int64_t elements,
              int32_t element_bytes, std::vector<LoopAccess>& out);

 private:
  /// A loop, or a digit of a fused one: `extent` steps of `stride` elements.
  struct Digit {
    int64_t stride = 0, extent = 1;
  };
  struct LoopTerm {
    int64_t coefficient = 0, divisor = 1;  // coefficient × floor(variable / divisor)
  };

  void collect_terms(const AffinePool& pool, const Affine& index, std::span<const IndexLoop> loops);
  bool mark_variables(const AffinePool& pool, const Affine& value, std::span<const IndexLoop> loops);
  bool take_apart(size_t loop, int64_t extent);
  void sample(const AffinePool& pool, const Affine& index, const IndexLoop& loop);
  void insert(Digit digit);
  void footprint(int64_t elements, int32_t element_bytes, LoopAccess& out) const;

  std::vector<std::vector<LoopTerm>> terms_;  // of each loop
  std::vector<uint8_t> irregular_;            // loops whose variable occurs in any other form
  std::vector<Digit> digits_;                 // of one loop
  std::vector<Digit> inner_;                  // of this loop and those inside, by stride
  std::vector<int64_t> values_;
};

}  // namespace foretime::data
