#pragma once

#include <span>

#include "data/frontends/ansor/dag/expression.h"
#include "data/frontends/ansor/replay/affine.h"

namespace foretime::data {

/// Holds the interval of an index's values, or says that they are unknown, such as for a call.
struct IndexInterval {
  Affine low, high;         // smallest and largest value
  bool everything = false;  // the values are unknown; low and high mean nothing
  bool range = false;       // TVM treats the interval as a range even if low equals high
  /// Holds the subtracted part of low and high: TVM writes the remainder x mod c of a range as x − c·floor(x / c).
  Affine subtracted{};
};

/// Returns the interval of the expression `root` if its variables take the values `axes` (by Node::target), by TVM's
/// interval arithmetic: repeated subexpressions vary independently. Throws DataError for a division by 0.
IndexInterval index_interval(const ExpressionTree& tree, int32_t root, std::span<const IndexInterval> axes,
                             AffinePool& pool);

/// Returns the value of the expression `root` if its variables have the values `axes` (by Node::target). Throws
/// DataError if the expression has anything but integers, these variables and operations on them, such as a load.
Affine index_value(const ExpressionTree& tree, int32_t root, std::span<const Affine> axes, AffinePool& pool);

/// Returns the result of the operation `kind`, which is one from add to maximum, on two integer expressions.
/// Throws DataError for a division by 0, and the errors of AffinePool.
Affine integer_arithmetic(ExpressionKind kind, const Affine& a, const Affine& b, AffinePool& pool);

}  // namespace foretime::data
