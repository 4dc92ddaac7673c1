#pragma once

#include <span>

#include "data/frontends/ansor/dag/expression.h"
#include "data/frontends/ansor/replay/affine.h"

namespace foretime::data {

/// Holds the values of an index, both ends included, or says that nothing is known, such as for a call.
struct IndexInterval {
  Affine low, high;
  bool everything = false;
  bool range = false;  // TVM treats it as a range even if low equals high
  /// Holds the subtracted part of low and high: TVM writes the remainder x mod c of a range as x − c·floor(x / c).
  Affine subtracted{};
};

/// Returns the values of the expression `root` for the values `axes` of its variables, by TVM's interval arithmetic:
/// repeated subexpressions vary independently.
IndexInterval index_interval(const ExpressionTree& tree, int32_t root, std::span<const IndexInterval> axes,
                             AffinePool& pool);

/// Returns the value of the expression `root` for the values `axes` of its variables. Throws DataError unless it
/// consists of integers, their arithmetic, comparisons and selections.
Affine index_value(const ExpressionTree& tree, int32_t root, std::span<const Affine> axes, AffinePool& pool);

/// Returns the result of `kind`, one of add to maximum, for two integers.
Affine integer_arithmetic(ExpressionKind kind, const Affine& a, const Affine& b, AffinePool& pool);

}  // namespace foretime::data
