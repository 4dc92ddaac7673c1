#pragma once

#include <span>

#include "data/frontends/ansor/dag/expression.h"
#include "data/frontends/ansor/replay/affine.h"

namespace foretime::data {

/// Values of an index, inclusive; or of one that nothing is known of, such as a call.
struct IndexInterval {
  Affine low, high;
  bool everything = false;
  bool range = false;  // to TVM it is a range, even where low and high are the same
  /// TVM writes the remainder x mod c of a range as x − c·floor(x / c): what is subtracted in low and high.
  Affine taken{};
};

/// The values that the expression `root` takes where its variables take those of `axes`, by interval arithmetic as
/// TVM's: what stands twice in an expression is taken to vary independently.
IndexInterval index_interval(const ExpressionTree& tree, int32_t root, std::span<const IndexInterval> axes,
                             AffinePool& pool);

/// The value of the expression `root` where its variables have the values `axes`. Throws DataError where it is not made
/// of integers, their arithmetic, comparisons and selections.
Affine index_value(const ExpressionTree& tree, int32_t root, std::span<const Affine> axes, AffinePool& pool);

/// What `kind`, one of add to maximum, makes of two integers.
Affine integer_arithmetic(ExpressionKind kind, const Affine& a, const Affine& b, AffinePool& pool);

}  // namespace foretime::data
