#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/index_range.h"
#include "data/frontends/ansor/dag/expression.h"
#include "data/frontends/ansor/replay/affine.h"

namespace foretime::data {
namespace {

AffineAtom operation(AtomKind kind, const Affine& a, const Affine& b, const Affine& c = {}) {
  AffineAtom atom;
  atom.kind = kind;
  atom.arguments = {a, b, c};
  return atom;
}

}  // namespace

void AffinePool::merge_divisions(AffinePart& part) const {
  while (is_atom(part.of) && atom_of(part.of).kind == AtomKind::floor_divide) {
    const AffineAtom& inner = atom_of(part.of);
    part.divisor = checked_multiply(part.divisor, inner.divisor);
    part.of = inner.arguments[0];
  }
}

/// floor((g·T + s) / (g·c)) is floor(T / c) if 0 ≤ s < g: looks for such a division among the parts of `rest`, by
/// falling coefficients. True: `kept` is T and `reduced` is c.
bool AffinePool::drop_small_terms(const Affine& rest, int64_t divisor, Affine& kept, int64_t& reduced) {
  const size_t begin = parts_.size();
  const int64_t base = decompose(rest);
  std::vector<Part> ordered(parts_.begin() + begin, parts_.end());
  parts_.resize(begin);
  std::ranges::stable_sort(
      ordered, [](const Part& a, const Part& b) { return std::abs(a.coefficient) > std::abs(b.coefficient); });
  int64_t common = divisor;
  for (size_t large = 1; large < ordered.size(); ++large) {
    common = std::gcd(common, ordered[large - 1].coefficient);
    if (common == 1) return false;
    int64_t low = floor_remainder(base, common), high = low;
    for (size_t i = large; i < ordered.size(); ++i) {
      const AffineBounds small = part_bounds(ordered[i]);
      if (small.low <= -kUnbounded || small.high >= kUnbounded) return false;
      low = checked_add(low, small.low);
      high = checked_add(high, small.high);
    }
    if (low < 0 || high >= common) continue;
    kept = Affine::of(floor_quotient(base, common));
    for (size_t i = 0; i < large; ++i) {
      ordered[i].coefficient /= common;
      kept = add(kept, value_of(ordered[i]));
    }
    reduced = divisor / common;
    return true;
  }
  return false;
}

Affine AffinePool::floor_divide(const Affine& a, int64_t divisor) {
  if (divisor == 0) throw DataError("a division by 0");
  if (divisor < 0) return floor_divide(scale(a, -1), checked_multiply(divisor, -1));
  if (divisor == 1) return a;
  if (a.constant()) return Affine::of(floor_quotient(a.base, divisor));
  if (keep_divisors_) return divide_as_it_is(a, divisor);
  // Multiples of the divisor come out.
  int64_t base = floor_remainder(a.base, divisor), common = divisor;
  scratch_.clear();
  for (const auto& term : terms(a))
    if (term.coefficient % divisor == 0) scratch_.push_back({term.coefficient / divisor, term.atom});
  const Affine quotient = from_terms(floor_quotient(a.base, divisor));
  if (quotient.count == a.count) return quotient;
  scratch_.clear();
  for (const auto& term : terms(a)) {
    if (term.coefficient % divisor == 0) continue;
    scratch_.push_back(term);
    common = std::gcd(common, term.coefficient);
  }
  if (common > 1) {
    for (auto& term : scratch_) term.coefficient /= common;
    base = floor_quotient(base, common);
    divisor /= common;  // still above 1, since none of these coefficients is a multiple of it
  }
  const Affine rest = from_terms(base);
  const AffineBounds within = bounds(rest);
  if (within.low > -kUnbounded && within.high < kUnbounded &&
      floor_quotient(within.low, divisor) == floor_quotient(within.high, divisor))
    return add(quotient, floor_quotient(within.low, divisor));
  if (rest.count == 1 && terms(rest)[0].coefficient == 1) {
    const AffineAtom& inner = atom_of(rest);
    if (inner.kind == AtomKind::floor_divide) {
      const Affine argument = inner.arguments[0];
      const int64_t by = inner.divisor;
      return add(quotient, floor_divide(add(argument, checked_multiply(base, by)), checked_multiply(by, divisor)));
    }
  }
  Affine kept;
  int64_t reduced = 0;
  if (rest.count > 1 && drop_small_terms(rest, divisor, kept, reduced))
    return add(quotient, floor_divide(kept, reduced));
  return add(quotient, quotient_atom(rest, divisor));
}

/// floor(a / divisor) that is reduced no further.
Affine AffinePool::quotient_atom(const Affine& a, int64_t divisor) {
  AffineAtom atom = operation(AtomKind::floor_divide, a, {});
  atom.divisor = divisor;
  return intern(atom);
}

Affine AffinePool::value_of(const Part& part) {
  const bool keep = std::exchange(keep_divisors_, false);
  Affine value = floor_divide(part.of, part.divisor);
  if (part.modulus > 0) value = subtract(value, scale(floor_divide(value, part.modulus), part.modulus));
  keep_divisors_ = keep;
  return scale(value, part.coefficient);
}

Affine AffinePool::divide_as_it_is(const Affine& a, int64_t divisor) {
  std::vector<Part> all;
  const int64_t base = parts(a, all);
  const bool divides = base % divisor == 0;
  Affine quotient = Affine::of(divides ? base / divisor : 0), rest = Affine::of(divides ? 0 : base);
  for (Part& part : all) {
    if (part.coefficient % divisor != 0) {
      rest = add(rest, value_of(part));
    } else {
      part.coefficient /= divisor;
      quotient = add(quotient, value_of(part));
    }
  }
  if (rest.constant()) return add(quotient, floor_quotient(rest.base, divisor));
  const AffineBounds within = bounds(rest);
  if (within.low > -kUnbounded && within.high < kUnbounded &&
      floor_quotient(within.low, divisor) == floor_quotient(within.high, divisor))
    return add(quotient, floor_quotient(within.low, divisor));
  return add(quotient, quotient_atom(rest, divisor));
}

Affine AffinePool::floor_divide(const Affine& a, const Affine& b) {
  return b.constant() ? floor_divide(a, b.base) : intern(operation(AtomKind::floor_divide_by, a, b));
}

Affine AffinePool::floor_modulo(const Affine& a, const Affine& b) {
  return subtract(a, multiply(b, floor_divide(a, b)));
}

Affine AffinePool::divide(const Affine& a, const Affine& b) {
  if (b.constant() && b.base > 0 && bounds(a).low >= 0) return floor_divide(a, b.base);
  if (b.constant() && b.base == 0) throw DataError("a division by 0");
  if (a.constant() && b.constant()) return Affine::of(b.base == -1 ? checked_multiply(a.base, -1) : a.base / b.base);
  return intern(operation(AtomKind::divide, a, b));
}

Affine AffinePool::modulo(const Affine& a, const Affine& b) { return subtract(a, multiply(b, divide(a, b))); }

Affine AffinePool::multiply(const Affine& a, const Affine& b) {
  if (b.constant()) return scale(a, b.base);
  if (a.constant()) return scale(b, a.base);
  return intern(operation(AtomKind::multiply, a, b));
}

Affine AffinePool::minimum(const Affine& a, const Affine& b) {
  const AffineBounds difference = bounds(subtract(a, b));
  if (difference.high <= 0) return a;
  if (difference.low >= 0) return b;
  return intern(operation(AtomKind::minimum, a, b));
}

Affine AffinePool::maximum(const Affine& a, const Affine& b) {
  const AffineBounds difference = bounds(subtract(a, b));
  if (difference.low >= 0) return a;
  if (difference.high <= 0) return b;
  return intern(operation(AtomKind::maximum, a, b));
}

Affine AffinePool::equal(const Affine& a, const Affine& b) {
  const AffineBounds difference = bounds(subtract(a, b));
  if (difference.low == 0 && difference.high == 0) return Affine::of(1);
  if (difference.low > 0 || difference.high < 0) return Affine::of(0);
  return intern(operation(AtomKind::equal, a, b));
}

Affine AffinePool::less(const Affine& a, const Affine& b) {
  const AffineBounds difference = bounds(subtract(a, b));
  if (difference.high < 0) return Affine::of(1);
  if (difference.low >= 0) return Affine::of(0);
  return intern(operation(AtomKind::less, a, b));
}

Affine AffinePool::logical(AtomKind kind, const Affine& a, const Affine& b) {
  const bool conjunction = kind == AtomKind::logical_and;
  if (a.constant()) return (a.base != 0) == conjunction ? b : Affine::of(a.base != 0);
  if (b.constant()) return (b.base != 0) == conjunction ? a : Affine::of(b.base != 0);
  return intern(operation(kind, a, b));
}

Affine AffinePool::negate(const Affine& a) {
  if (a.constant()) return Affine::of(a.base == 0);
  return intern(operation(AtomKind::logical_not, a, {}));
}

Affine AffinePool::select(const Affine& condition, const Affine& a, const Affine& b) {
  if (condition.constant()) return condition.base != 0 ? a : b;
  if (same(a, b)) return a;
  return intern(operation(AtomKind::select, condition, a, b));
}

AffineInterval AffinePool::relax_atom(uint32_t id, const Relaxation& relaxation) {
  const AffineAtom atom = atoms_[id];
  if (atom.kind == AtomKind::variable) {
    const AffineInterval* interval = relaxation(atom.variable);
    return interval != nullptr ? *interval : AffineInterval{atom.self, atom.self};
  }
  std::array<AffineInterval, 3> arguments;
  bool point = true;
  for (size_t i = 0; i < arguments.size(); ++i) {
    arguments[i] = relax(atom.arguments[i], relaxation);
    point &= same(arguments[i].low, arguments[i].high) && same(arguments[i].low, atom.arguments[i]);
  }
  if (point) return {atom.self, atom.self};
  const auto& [a, b, c] = arguments;
  switch (atom.kind) {
    case AtomKind::floor_divide: return {floor_divide(a.low, atom.divisor), floor_divide(a.high, atom.divisor)};
    case AtomKind::minimum: return {minimum(a.low, b.low), minimum(a.high, b.high)};
    case AtomKind::maximum: return {maximum(a.low, b.low), maximum(a.high, b.high)};
    case AtomKind::select: return {minimum(b.low, c.low), maximum(b.high, c.high)};
    default: break;
  }
  if (atom.bounds.low <= -kUnbounded || atom.bounds.high >= kUnbounded)
    throw DataError("an index without bounds, expected an affine one");
  return {Affine::of(atom.bounds.low), Affine::of(atom.bounds.high)};
}

AffineInterval AffinePool::relax_part(const Part& part, const Relaxation& relaxation) {
  AffineInterval of = is_atom(part.of) ? relax_atom(terms(part.of)[0].atom, relaxation) : relax(part.of, relaxation);
  const bool point = same(of.low, of.high);
  of.low = floor_divide(of.low, part.divisor);
  of.high = point ? of.low : floor_divide(of.high, part.divisor);
  if (part.modulus > 0) {
    const Affine below = floor_divide(of.low, part.modulus);
    if (point || same(below, floor_divide(of.high, part.modulus))) {
      const Affine start = scale(below, part.modulus);
      of = {subtract(of.low, start), subtract(of.high, start)};
    } else {
      of = {Affine::of(0), Affine::of(part.modulus - 1)};
    }
  }
  const Affine a = scale(of.low, part.coefficient), b = scale(of.high, part.coefficient);
  return part.coefficient >= 0 ? AffineInterval{a, b} : AffineInterval{b, a};
}

AffineInterval AffinePool::relax(const Affine& a, const Relaxation& relaxation) {
  if (a.constant()) return {a, a};
  const size_t begin = parts_.size();
  const int64_t base = decompose(a);
  const size_t end = parts_.size();
  AffineInterval sum{Affine::of(base), Affine::of(base)};
  for (size_t i = begin; i < end; ++i) {
    const AffineInterval added = relax_part(Part(parts_[i]), relaxation);
    sum = {add(sum.low, added.low), add(sum.high, added.high)};
  }
  parts_.resize(begin);
  return sum;
}

int64_t AffinePool::evaluate(const Affine& a, const std::function<int64_t(int32_t)>& value_of) const {
  int64_t sum = a.base;
  for (const auto& term : terms(a)) {
    const AffineAtom& atom = atoms_[term.atom];
    const auto argument = [&](size_t i) { return evaluate(atom.arguments[i], value_of); };
    const auto value = [&]() -> int64_t {
      switch (atom.kind) {
        case AtomKind::variable: return value_of(atom.variable);
        case AtomKind::floor_divide: return floor_quotient(argument(0), atom.divisor);
        case AtomKind::floor_divide_by:
        case AtomKind::divide: {
          const int64_t by = argument(1);
          if (by == 0) return 0;
          if (by == -1) return checked_multiply(argument(0), -1);
          if (atom.kind == AtomKind::divide) return argument(0) / by;
          return by > 0 ? floor_quotient(argument(0), by)
                        : floor_quotient(checked_multiply(argument(0), -1), checked_multiply(by, -1));
        }
        case AtomKind::minimum: return std::min(argument(0), argument(1));
        case AtomKind::maximum: return std::max(argument(0), argument(1));
        case AtomKind::multiply: return checked_multiply(argument(0), argument(1));
        case AtomKind::equal: return argument(0) == argument(1);
        case AtomKind::less: return argument(0) < argument(1);
        case AtomKind::logical_and: return argument(0) != 0 && argument(1) != 0;
        case AtomKind::logical_or: return argument(0) != 0 || argument(1) != 0;
        case AtomKind::logical_not: return argument(0) == 0;
        default: return argument(0) != 0 ? argument(1) : argument(2);  // select
      }
    };
    sum = checked_add(sum, checked_multiply(term.coefficient, value()));
  }
  return sum;
}

std::string AffinePool::to_text(const Affine& a, const std::function<std::string(int32_t)>& name_of) const {
  static constexpr const char* kFormats[] = {// by AtomKind, of the arguments and the divisor
                                             "",
                                             "floordiv({0}, {3})",
                                             "floordiv({0}, {1})",
                                             "min({0}, {1})",
                                             "max({0}, {1})",
                                             "({0}*{1})",
                                             "({0}/{1})",
                                             "({0} == {1})",
                                             "({0} < {1})",
                                             "({0} && {1})",
                                             "({0} || {1})",
                                             "!{0}",
                                             "select({0}, {1}, {2})"};
  std::string out;
  for (const auto& term : terms(a)) {
    const AffineAtom& atom = atoms_[term.atom];
    const auto argument = [&](size_t i) { return to_text(atom.arguments[i], name_of); };
    std::string text = atom.kind == AtomKind::variable
                           ? name_of(atom.variable)
                           : fmt::format(fmt::runtime(kFormats[index_of(atom.kind)]), argument(0), argument(1),
                                         argument(2), atom.divisor);
    if (term.coefficient != 1) text = fmt::format("({}*{})", text, term.coefficient);
    out = out.empty() ? text : fmt::format("({} + {})", out, text);
  }
  if (out.empty()) return std::to_string(a.base);
  return a.base == 0 ? out : fmt::format("({} + {})", out, a.base);
}

}  // namespace foretime::data
