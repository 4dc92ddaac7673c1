#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "data/frontends/ansor/dag/expression.h"

/// Which values an index of a printed stage takes where its axes run over known ranges.
namespace foretime::data {

/// Lowest and highest value.
using IndexRange = std::pair<int64_t, int64_t>;

/// By axis, spatial ones first; nothing where it is not known.
using AxisRanges = std::vector<std::optional<IndexRange>>;

/// Values of an index whose variables run over `axes`; nothing where that is not known. Throws DataError beyond 2^62.
std::optional<IndexRange> range_of(const ExpressionTree& tree, int32_t root,
                                   std::span<const std::optional<IndexRange>> axes);

/// Sets which of `axes` an expression names.
void mark_axes(const ExpressionTree& tree, int32_t root, std::vector<bool>& axes);

/// Narrows `axes` to where a condition holds: of `a && b`, both; of a comparison of an axis and a number, what it says.
void narrow_axes(const ExpressionTree& tree, int32_t condition, AxisRanges& axes);

/// The largest length of `axis`, one of `axes`, with which an index that names no other axis stays within `limit`;
/// nothing where it does not grow with the axis.
std::optional<int64_t> largest_length(const ExpressionTree& tree, int32_t index, size_t axes, size_t axis,
                                      int64_t limit);

}  // namespace foretime::data
