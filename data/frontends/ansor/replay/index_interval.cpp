#include "data/frontends/ansor/replay/index_interval.h"

#include "base/error.h"
#include "base/index_range.h"

namespace foretime::data {
namespace {

using Kind = ExpressionKind;

class Intervals {
 public:
  Intervals(const ExpressionTree& tree, std::span<const IndexInterval> axes, AffinePool& pool)
      : tree_(tree), axes_(axes), pool_(pool) {}

  IndexInterval of(int32_t id) {
    const auto& node = tree_.node(id);
    switch (node.kind) {
      case Kind::integer: return point(Affine::of(checked(node.value)));
      case Kind::variable: return axes_[node.target];
      case Kind::cast: return of(tree_.child(id, 0));
      case Kind::select: return both(of(tree_.child(id, 1)), of(tree_.child(id, 2)));
      case Kind::real:
      case Kind::text:
      case Kind::load:
      case Kind::call: return everything();
      default: break;
    }
    if (is_condition(node.kind)) return {Affine::of(0), Affine::of(1)};
    const IndexInterval a = of(tree_.child(id, 0)), b = of(tree_.child(id, 1));
    IndexInterval result = combined(node.kind, a, b);
    pass_taken(node.kind, a, b, result);
    result.range |= a.range || b.range;
    return result;
  }

 private:
  IndexInterval combined(Kind kind, const IndexInterval& a, const IndexInterval& b) {
    if (a.everything || b.everything) return kind == Kind::floor_modulo ? remainder(a, b) : everything();
    switch (kind) {
      case Kind::add: return {pool_.add(a.low, b.low), pool_.add(a.high, b.high)};
      case Kind::subtract: return {pool_.subtract(a.low, b.high), pool_.subtract(a.high, b.low)};
      case Kind::multiply: return product(a, b);
      case Kind::divide:
      case Kind::floor_divide: return quotient(kind, a, b);
      case Kind::modulo:
      case Kind::floor_modulo:
        if (is_point(a) && is_point(b) && !a.range)
          return point(kind == Kind::modulo ? pool_.modulo(a.low, b.low) : pool_.floor_modulo(a.low, b.low));
        return remainder(a, b);
      case Kind::minimum: return {pool_.minimum(a.low, b.low), pool_.minimum(a.high, b.high)};
      default: return {pool_.maximum(a.low, b.low), pool_.maximum(a.high, b.high)};
    }
  }

  void pass_taken(Kind kind, const IndexInterval& a, const IndexInterval& b, IndexInterval& result) {
    const bool none = a.subtracted.constant() && b.subtracted.constant();
    if (none || result.everything) return;
    if (kind == Kind::add) result.subtracted = pool_.add(a.subtracted, b.subtracted);
    if (kind == Kind::subtract) result.subtracted = pool_.subtract(a.subtracted, b.subtracted);
    if (kind == Kind::multiply && b.low.constant()) result.subtracted = pool_.scale(a.subtracted, b.low.base);
    if (kind == Kind::multiply && a.low.constant()) result.subtracted = pool_.scale(b.subtracted, a.low.base);
  }

  static IndexInterval point(const Affine& value) { return {value, value}; }
  static IndexInterval everything() { return {{}, {}, true}; }
  bool is_point(const IndexInterval& a) const { return pool_.same(a.low, a.high); }

  IndexInterval both(const IndexInterval& a, const IndexInterval& b) {
    if (a.everything || b.everything) return everything();
    return {pool_.minimum(a.low, b.low), pool_.maximum(a.high, b.high)};
  }

  IndexInterval product(IndexInterval a, IndexInterval b) {
    if (is_point(a) && is_point(b)) return point(pool_.multiply(a.low, b.low));
    if (is_point(a)) std::swap(a, b);
    if (!is_point(b)) return everything();
    const AffineBounds factor = pool_.bounds(b.low);
    const Affine low = pool_.multiply(a.low, b.low), high = pool_.multiply(a.high, b.low);
    if (factor.low >= 0) return {low, high};
    return factor.high <= 0 ? IndexInterval{high, low} : everything();
  }

  IndexInterval quotient(Kind kind, const IndexInterval& a, const IndexInterval& b) {
    const auto divided = [&](const Affine& x, const Affine& y) {
      return kind == Kind::divide ? pool_.divide(x, y) : pool_.floor_divide(x, y);
    };
    if (is_point(a) && is_point(b)) return point(divided(a.low, b.low));
    if (!is_point(b)) return everything();
    const AffineBounds divisor = pool_.bounds(b.low);
    if (divisor.low == 0 && divisor.high == 0) throw DataError("an index divided by 0");
    if (divisor.low >= 0) return {divided(a.low, b.low), divided(a.high, b.low)};
    return divisor.high < 0 ? IndexInterval{divided(a.high, b.low), divided(a.low, b.low)} : everything();
  }

  IndexInterval remainder(const IndexInterval& a, const IndexInterval& b) {
    if (b.everything || !b.low.constant() || !is_point(b)) return everything();
    const int64_t divisor = b.low.base;
    if (divisor == 0) throw DataError("an index modulo 0");
    if (divisor < 0) return {Affine::of(divisor + 1), Affine::of(-divisor - 1)};
    if (!a.everything) {
      const Affine start = pool_.floor_divide(a.low, divisor);
      if (pool_.same(start, pool_.floor_divide(a.high, divisor))) {
        const Affine skipped = pool_.scale(start, divisor);
        return {pool_.subtract(a.low, skipped), pool_.subtract(a.high, skipped), false, true,
                pool_.add(skipped, a.subtracted)};
      }
    }
    return {Affine::of(0), Affine::of(divisor - 1)};
  }

  const ExpressionTree& tree_;
  std::span<const IndexInterval> axes_;
  AffinePool& pool_;
};

class Values {
 public:
  Values(const ExpressionTree& tree, std::span<const Affine> axes, AffinePool& pool)
      : tree_(tree), axes_(axes), pool_(pool) {}

  Affine of(int32_t id) {
    const auto& node = tree_.node(id);
    const auto child = [&](size_t i) { return of(tree_.child(id, i)); };
    if (node.kind == Kind::integer) return Affine::of(checked(node.value));
    if (node.kind == Kind::variable && node.target >= 0 && node.target < std::ssize(axes_)) return axes_[node.target];
    if (node.kind == Kind::cast) return child(0);
    if (node.kind == Kind::logical_not) return pool_.negate(child(0));
    if (node.kind == Kind::select) return pool_.select(child(0), child(1), child(2));
    if (node.kind >= Kind::add && node.kind <= Kind::logical_or) {
      const bool swapped = node.kind == Kind::less_equal || node.kind == Kind::greater;
      const Affine b = child(swapped ? 0 : 1), a = child(swapped ? 1 : 0);
      if (!is_condition(node.kind)) return integer_arithmetic(node.kind, a, b, pool_);
      if (node.kind == Kind::equal) return pool_.equal(a, b);
      if (node.kind == Kind::not_equal) return pool_.negate(pool_.equal(a, b));
      if (node.kind == Kind::logical_and) return pool_.logical(AtomKind::logical_and, a, b);
      if (node.kind == Kind::logical_or) return pool_.logical(AtomKind::logical_or, a, b);
      const Affine less = pool_.less(a, b);
      return node.kind == Kind::less || node.kind == Kind::greater ? less : pool_.negate(less);
    }
    throw DataError("'{}': expected arithmetic of integers and axes", to_text(tree_, id).substr(0, 80));
  }

 private:
  const ExpressionTree& tree_;
  std::span<const Affine> axes_;
  AffinePool& pool_;
};

}  // namespace

IndexInterval index_interval(const ExpressionTree& tree, int32_t root, std::span<const IndexInterval> axes,
                             AffinePool& pool) {
  return Intervals(tree, axes, pool).of(root);
}

Affine index_value(const ExpressionTree& tree, int32_t root, std::span<const Affine> axes, AffinePool& pool) {
  return Values(tree, axes, pool).of(root);
}

Affine integer_arithmetic(ExpressionKind kind, const Affine& a, const Affine& b, AffinePool& pool) {
  using Operation = Affine (AffinePool::*)(const Affine&, const Affine&);
  // By ExpressionKind, from add on.
  static constexpr Operation kOperations[] = {
      &AffinePool::add,          &AffinePool::subtract, &AffinePool::multiply,
      &AffinePool::divide,       &AffinePool::modulo,   &AffinePool::floor_divide,
      &AffinePool::floor_modulo, &AffinePool::minimum,  &AffinePool::maximum};
  return (pool.*kOperations[index_of(kind) - index_of(Kind::add)])(a, b);
}

}  // namespace foretime::data
