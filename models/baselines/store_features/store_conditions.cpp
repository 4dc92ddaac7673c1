// The conditions in a store's expression: which of them loops decide, and what TVM's simplifier leaves of the others.
#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "data/frontends/ansor/replay/index_interval.h"
#include "models/baselines/store_features/store_walk.h"

namespace foretime::models {

KnownValue StoreWalk::less(const KnownValue& a, const KnownValue& b, bool or_equal) {
  if (a.type != KnownValue::Type::integer || b.type != KnownValue::Type::integer) {
    ++count.float_compare;
    return KnownValue::truth();
  }
  if (a.opaque || b.opaque) {
    count_integer(a);
    count_integer(b);
    ++count.integer.compare;
    return KnownValue::truth();
  }
  const data::Affine difference = pool.add(pool.subtract(a.affine, b.affine), or_equal ? -1 : 0);
  const data::AffineBounds bounds = pool.bounds(difference);
  if (bounds.high < 0 || bounds.low >= 0) return KnownValue::truth(bounds.high < 0);
  count_less(difference, pool.subtract(a.subtracted, b.subtracted));
  return KnownValue::truth();
}

KnownValue StoreWalk::equal(const KnownValue& a, const KnownValue& b, bool negated) {
  if (a.type != KnownValue::Type::integer || b.type != KnownValue::Type::integer || a.opaque || b.opaque) {
    count_integer(a);
    count_integer(b);
    ++(a.type == KnownValue::Type::integer ? count.integer.compare : count.float_compare);
    return KnownValue::truth();
  }
  const data::Affine difference = pool.subtract(a.affine, b.affine);
  const data::AffineBounds bounds = pool.bounds(difference);
  if (bounds.low == 0 && bounds.high == 0) return KnownValue::truth(!negated);
  if (bounds.low > 0 || bounds.high < 0) return KnownValue::truth(negated);
  ++count.integer.compare;
  count_terms(difference, pool.subtract(a.subtracted, b.subtracted));
  return KnownValue::truth();
}

KnownValue StoreWalk::logical(const data::ExpressionTree::Node& node, int32_t id, std::span<const KnownValue> axes) {
  const StoreOperations before = count;
  const size_t loaded = loads.size();
  const bool conjunction = node.kind == data::ExpressionKind::logical_and;
  const KnownValue a = of(tree.child(id, 0), axes);
  if (a.constant && (a.number != 0.0) != conjunction) return KnownValue::truth(!conjunction);
  const KnownValue b = of(tree.child(id, 1), axes);
  if (b.constant && (b.number != 0.0) != conjunction) {
    count = before;
    loads.resize(loaded);
    return KnownValue::truth(!conjunction);
  }
  if (a.constant || b.constant) return a.constant ? b : a;
  ++count.integer.logic;
  return KnownValue::truth();
}

void StoreWalk::count_less(data::Affine difference, const data::Affine& subtracted) {
  ++count.integer.compare;
  for (int turn = 0; turn < 8 && subtracted.constant(); ++turn) {
    parts.clear();
    const int64_t base = pool.parts(difference, parts);
    for (auto& part : parts) pool.merge_divisions(part);
    if (parts.size() == 1) {
      const data::AffinePart part = parts[0];
      // scale·p + base < 0: p ≤ most, or p ≥ least.
      const int64_t scale = std::abs(part.coefficient);
      const bool above = part.coefficient < 0;
      const int64_t limit = above ? data::floor_quotient(base, scale) + 1 : -data::floor_quotient(base, scale);
      data::Affine value = part.of;
      if (part.modulus > 0)
        value = pool.floor_modulo(value, data::Affine::of(data::checked_multiply(part.divisor, part.modulus)));
      // limit ≤ v // d, or v // d < limit
      const int64_t bound = data::checked_multiply(limit, part.divisor);
      difference = above ? pool.add(pool.scale(value, -1), data::checked_add(bound, -1)) : pool.add(value, -bound);
      if (part.divisor == 1 && scale == 1) break;
      continue;
    }
    int64_t common = std::abs(base);
    bool scaled = false;
    for (const auto& part : parts) {
      if (std::abs(part.coefficient) == 1) continue;
      scaled = true;
      common = std::gcd(common, part.coefficient);
    }
    if (!scaled || common <= 1) break;
    data::Affine divisible = data::Affine::of(base / common), extra = data::Affine::of(0);
    for (const auto& part : parts) {
      data::Affine value = pool.floor_divide(part.of, part.divisor);
      if (part.modulus > 0) value = pool.floor_modulo(value, data::Affine::of(part.modulus));
      if (part.coefficient % common == 0) divisible = pool.add(divisible, pool.scale(value, part.coefficient / common));
      else extra = pool.add(extra, pool.scale(value, part.coefficient));
    }
    const data::AffineBounds within = pool.bounds(extra);
    if (within.low <= -common || within.high >= common) break;
    difference = divisible;
  }
  count_terms(difference, subtracted);
}

void StoreWalk::count_terms(const data::Affine& sum, const data::Affine& subtracted) {
  parts.clear();
  pool.parts(sum, parts);
  const bool negative = std::ranges::all_of(parts, [](const data::AffinePart& part) { return part.coefficient < 0; });
  const data::Affine side = pool.add(sum, -sum.base);
  forms.count(forms.write(negative ? pool.scale(side, -1) : side, pool.scale(subtracted, negative ? -1 : 1)),
              count.integer);
}

}  // namespace foretime::models
