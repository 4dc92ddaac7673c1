#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/frontends/ansor/replay/affine.h"
#include "data/frontends/loops/loop_program.h"

namespace foretime::data {

/// Describes a loop around an access.
struct IndexLoop {
  int32_t variable = 0;  // number of the loop's variable in the AffinePool
  int64_t extent = 1;    // iterations
};

/// Analyses how an index moves in each of the loops around it. Fused loops, whose variable occurs as f, floor(f / c)
/// and f mod c, are split into digits exactly; other nonlinear indices are sampled in at most 32 iterations. Reuses its
/// memory; make one object for each thread.
class AccessPattern {
 public:
  /// Appends one LoopAccess for each of `loops` (outermost first) to `out`. `index` is the element's position in a
  /// buffer of `elements` elements of `element_bytes` bytes; variables of other loops count as constant. Footprints are
  /// exact if each stride is a multiple of the next smaller overlapping one, which holds for indices of dense arrays
  /// and sliding windows. Throws DataError if a number is beyond 2^62.
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

  /// Collects the terms of `index` for each loop.
  void collect_terms(const AffinePool& pool, const Affine& index, std::span<const IndexLoop> loops);
  /// Marks the loops whose variables occur in `value` as irregular; returns whether there are any.
  bool mark_variables(const AffinePool& pool, const Affine& value, std::span<const IndexLoop> loops);
  /// Sets digits_ to the digits of a loop whose terms are digits of the loop's variable; returns false if they are not.
  bool split_into_digits(size_t loop, int64_t extent);
  /// Sets digits_ to an estimate from the positions of an index in at most 32 iterations of a loop.
  void sample(const AffinePool& pool, const Affine& index, const IndexLoop& loop);
  void insert(Digit digit);  // adds a digit to inner_ unless its extent is 1
  /// Sets the footprint and lines of `out` to the numbers of distinct elements and cache lines that the loops in inner_
  /// reach, at most those of a buffer of `elements` elements.
  void footprint(int64_t elements, int32_t element_bytes, LoopAccess& out) const;

  std::vector<std::vector<LoopTerm>> terms_;  // [loops] terms with the loop's variable
  std::vector<uint8_t> irregular_;  // [loops] 1 if the loop's variable also occurs in another form than a term
  std::vector<Digit> digits_;       // digits of one loop
  std::vector<Digit> inner_;        // digits of this loop and the inner ones, sorted by stride
  std::vector<int64_t> values_;     // sampled positions
};

}  // namespace foretime::data
