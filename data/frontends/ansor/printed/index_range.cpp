#include "data/frontends/ansor/printed/index_range.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>

#include "data/frontends/ansor/dag/compute_dag.h"

namespace foretime::data {
namespace {

using Kind = ExpressionKind;

}  // namespace

std::optional<IndexRange> range_of(const ExpressionTree& tree, int32_t root,
                                   std::span<const std::optional<IndexRange>> axes) {
  const auto& node = tree.node(root);
  if (node.kind == Kind::integer) return IndexRange{node.value, node.value};
  if (node.kind == Kind::variable) return node.target < 0 ? std::nullopt : axes[node.target];
  if (node.kind == Kind::cast && tree.name(root).find("int") != std::string::npos)
    return range_of(tree, tree.child(root, 0), axes);
  if (node.children != 2) return {};
  const auto a = range_of(tree, tree.child(root, 0), axes), b = range_of(tree, tree.child(root, 1), axes);
  if (!a || !b) return {};
  switch (node.kind) {
    case Kind::add:
      return IndexRange{checked_add(a->first, b->first), checked_add(a->second, b->second)};
    case Kind::subtract:
      return IndexRange{checked_subtract(a->first, b->second), checked_subtract(a->second, b->first)};
    case Kind::multiply: {
      const int64_t all[] = {checked_multiply(a->first, b->first), checked_multiply(a->first, b->second),
                             checked_multiply(a->second, b->first), checked_multiply(a->second, b->second)};
      return IndexRange{*std::min_element(std::begin(all), std::end(all)),
                        *std::max_element(std::begin(all), std::end(all))};
    }
    case Kind::minimum:
      return IndexRange{std::min(a->first, b->first), std::min(a->second, b->second)};
    case Kind::maximum:
      return IndexRange{std::max(a->first, b->first), std::max(a->second, b->second)};
    case Kind::floor_divide:
    case Kind::divide:
      if (b->first != b->second || b->first < 1 || (node.kind == Kind::divide && a->first < 0)) return {};
      return IndexRange{floor_quotient(a->first, b->first), floor_quotient(a->second, b->first)};
    case Kind::floor_modulo:
    case Kind::modulo:
      if (b->first != b->second || b->first < 1 || (node.kind == Kind::modulo && a->first < 0)) return {};
      if (floor_quotient(a->first, b->first) == floor_quotient(a->second, b->first))
        return IndexRange{floor_remainder(a->first, b->first), floor_remainder(a->second, b->first)};
      return IndexRange{0, b->first - 1};
    default:
      return {};
  }
}

void mark_axes(const ExpressionTree& tree, int32_t root, std::vector<bool>& axes) {
  const auto& node = tree.node(root);
  if (node.kind == Kind::variable && node.target >= 0) axes[node.target] = true;
  for (const int32_t child : tree.children(root)) mark_axes(tree, child, axes);
}

void narrow_axes(const ExpressionTree& tree, int32_t condition, AxisRanges& axes) {
  const auto& node = tree.node(condition);
  if (node.kind == Kind::logical_and) {
    for (const int32_t child : tree.children(condition)) narrow_axes(tree, child, axes);
    return;
  }
  if (!is_condition(node.kind) || node.children != 2) return;
  const auto& left = tree.node(tree.child(condition, 0));
  const auto& right = tree.node(tree.child(condition, 1));
  if (left.kind != Kind::variable || left.target < 0 || right.kind != Kind::integer) return;
  auto& axis = axes[left.target];
  if (!axis) return;
  if (node.kind == Kind::less) axis->second = std::min(axis->second, right.value - 1);
  if (node.kind == Kind::less_equal) axis->second = std::min(axis->second, right.value);
  if (node.kind == Kind::greater) axis->first = std::max(axis->first, right.value + 1);
  if (node.kind == Kind::greater_equal) axis->first = std::max(axis->first, right.value);
}

std::optional<int64_t> largest_length(const ExpressionTree& tree, int32_t index, size_t axes, size_t axis,
                                      int64_t limit) {
  AxisRanges values(axes);
  const auto at = [&](int64_t value) {
    values[axis] = IndexRange{value, value};
    const auto range = range_of(tree, index, values);
    return range ? range->first : std::numeric_limits<int64_t>::min();
  };
  int64_t inside = 0, outside = kLargestExtent;
  if (at(0) < 0 || at(0) >= limit || at(outside) < limit || at(1) < at(0)) return {};
  while (outside - inside > 1) {
    const int64_t middle = inside + (outside - inside) / 2;
    (at(middle) < limit ? inside : outside) = middle;
  }
  return inside + 1;
}

}  // namespace foretime::data
