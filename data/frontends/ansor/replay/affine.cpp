#include "data/frontends/ansor/replay/affine.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "data/frontends/ansor/dag/expression.h"

namespace foretime::data {
namespace {

constexpr size_t kMostTerms = size_t{1} << 18, kFirstTable = 256;
constexpr int32_t kMostDepth = 200;

int64_t product(int64_t a, int64_t b) { return saturated(static_cast<__int128>(a) * b); }

AffineBounds scaled(const AffineBounds& bounds, int64_t factor) {
  const int64_t a = product(bounds.low, factor), b = product(bounds.high, factor);
  return factor >= 0 ? AffineBounds{a, b} : AffineBounds{b, a};
}

AffineBounds digit(AffineBounds bounds, int64_t divisor, int64_t modulus) {
  bounds = {bound_quotient(bounds.low, divisor), bound_quotient(bounds.high, divisor)};
  if (modulus == 0) return bounds;
  const bool known = bounds.low > -kUnbounded && bounds.high < kUnbounded;
  if (known && floor_quotient(bounds.low, modulus) == floor_quotient(bounds.high, modulus))
    return {floor_remainder(bounds.low, modulus), floor_remainder(bounds.high, modulus)};
  return {0, modulus - 1};
}

}  // namespace

int64_t saturated(__int128 value) { return static_cast<int64_t>(std::clamp<__int128>(value, -kUnbounded, kUnbounded)); }

int64_t bound_sum(int64_t a, int64_t b) {
  if (a <= -kUnbounded || b <= -kUnbounded) return -kUnbounded;
  if (a >= kUnbounded || b >= kUnbounded) return kUnbounded;
  return saturated(static_cast<__int128>(a) + b);
}

int64_t bound_quotient(int64_t a, int64_t divisor) {
  return a <= -kUnbounded || a >= kUnbounded ? a : floor_quotient(a, divisor);
}

AffineBounds bound_product(const AffineBounds& a, const AffineBounds& b) {
  const auto [low, high] =
      std::minmax({product(a.low, b.low), product(a.low, b.high), product(a.high, b.low), product(a.high, b.high)});
  return {low, high};
}

AffinePool::AffinePool() { clear(); }

void AffinePool::clear() {
  keep_divisors_ = false;
  terms_.clear();
  scratch_.clear();
  atoms_.clear();
  parts_.clear();
  table_.assign(kFirstTable, 0);
}

Affine AffinePool::from_terms(int64_t base) {
  if (terms_.size() + scratch_.size() > kMostTerms)
    throw DataError("bounds with more terms than any real schedule has");
  const Affine made{base, static_cast<uint32_t>(terms_.size()), static_cast<uint32_t>(scratch_.size())};
  terms_.insert(terms_.end(), scratch_.begin(), scratch_.end());
  return made;
}

Affine AffinePool::variable(int32_t number, AffineBounds bounds) {
  if (bounds.low == bounds.high) return Affine::of(bounds.low);
  AffineAtom atom;
  atom.variable = number;
  atom.bounds = bounds;
  return intern(atom);
}

bool AffinePool::same(const Affine& a, const Affine& b) const {
  if (a.base != b.base || a.count != b.count) return false;
  return a.first == b.first || std::ranges::equal(terms(a), terms(b));
}

bool AffinePool::equals(const AffineAtom& a, const AffineAtom& b) const {
  return a.kind == b.kind && a.variable == b.variable && a.divisor == b.divisor &&
         same(a.arguments[0], b.arguments[0]) && same(a.arguments[1], b.arguments[1]) &&
         same(a.arguments[2], b.arguments[2]);
}

uint64_t AffinePool::hash(const AffineAtom& atom) const {
  uint64_t state = static_cast<uint64_t>(atom.kind);
  const auto mix = [&state](int64_t value) { state = (std::rotl(state, 5) ^ value) * 0x9e3779b97f4a7c15ULL; };
  mix(atom.variable);
  mix(atom.divisor);
  for (const Affine& argument : atom.arguments) {
    mix(argument.base);
    for (const auto& term : terms(argument)) {
      mix(term.coefficient);
      mix(term.atom);
    }
  }
  return state ^ (state >> 29);
}

void AffinePool::grow_table() {
  table_.assign(table_.size() * 2, 0);
  for (uint32_t id = 0; id < atoms_.size(); ++id) {
    size_t slot = hash(atoms_[id]) & (table_.size() - 1);
    while (table_[slot] != 0) slot = (slot + 1) & (table_.size() - 1);
    table_[slot] = id + 1;
  }
}

Affine AffinePool::intern(AffineAtom atom) {
  size_t slot = hash(atom) & (table_.size() - 1);
  for (; table_[slot] != 0; slot = (slot + 1) & (table_.size() - 1)) {
    const AffineAtom& known = atoms_[table_[slot] - 1];
    if (equals(known, atom)) return known.self;
  }
  if (atom.kind != AtomKind::variable) {
    for (const Affine& argument : atom.arguments)
      for (const auto& term : terms(argument)) atom.depth = std::max(atom.depth, atoms_[term.atom].depth + 1);
    if (atom.depth > kMostDepth) throw DataError("bounds nested deeper than those of any real schedule");
    atom.argument_bounds = bounds(atom.arguments[0]);
    atom.bounds = atom_bounds(atom);
  }
  const uint32_t id = atoms_.size();
  scratch_.assign(1, {1, id});
  atom.self = from_terms(0);
  atoms_.push_back(atom);
  table_[slot] = id + 1;
  if (2 * atoms_.size() > table_.size()) grow_table();
  return atom.self;
}

AffineBounds AffinePool::atom_bounds(const AffineAtom& atom) {
  const AffineBounds a = atom.argument_bounds;
  switch (atom.kind) {
    case AtomKind::variable: return atom.bounds;
    case AtomKind::floor_divide: return digit(a, atom.divisor, 0);
    case AtomKind::floor_divide_by:
    case AtomKind::divide: {
      const int64_t most = std::max(std::abs(a.low), std::abs(a.high));  // |divisor| is 1 or more
      return {-most, most};
    }
    case AtomKind::minimum: {
      const AffineBounds b = bounds(atom.arguments[1]);
      return {std::min(a.low, b.low), std::min(a.high, b.high)};
    }
    case AtomKind::maximum: {
      const AffineBounds b = bounds(atom.arguments[1]);
      return {std::max(a.low, b.low), std::max(a.high, b.high)};
    }
    case AtomKind::multiply: return bound_product(a, bounds(atom.arguments[1]));
    case AtomKind::select: {
      const AffineBounds b = bounds(atom.arguments[1]), c = bounds(atom.arguments[2]);
      return {std::min(b.low, c.low), std::max(b.high, c.high)};
    }
    default: return {0, 1};
  }
}

Affine AffinePool::add(const Affine& a, int64_t b) const {
  Affine sum = a;
  sum.base = checked_add(a.base, b);
  return sum;
}

Affine AffinePool::combine(const Affine& a, const Affine& b, int64_t sign) {
  const int64_t base = sign > 0 ? checked_add(a.base, b.base) : checked_subtract(a.base, b.base);
  if (b.constant()) return {base, a.first, a.count};
  if (a.constant() && sign > 0) return {base, b.first, b.count};
  scratch_.clear();
  const auto left = terms(a), right = terms(b);
  size_t i = 0, j = 0;
  while (i < left.size() || j < right.size()) {
    if (j == right.size() || (i < left.size() && left[i].atom < right[j].atom)) {
      scratch_.push_back(left[i++]);
    } else if (i == left.size() || right[j].atom < left[i].atom) {
      scratch_.push_back({checked_multiply(right[j].coefficient, sign), right[j].atom});
      ++j;
    } else {
      const int64_t sum = checked_add(left[i].coefficient, checked_multiply(right[j].coefficient, sign));
      if (sum != 0) scratch_.push_back({sum, left[i].atom});
      ++i;
      ++j;
    }
  }
  return from_terms(base);
}

Affine AffinePool::scale(const Affine& a, int64_t factor) {
  if (factor == 0) return Affine::of(0);
  if (factor == 1) return a;
  const int64_t base = checked_multiply(a.base, factor);
  scratch_.clear();
  for (const auto& term : terms(a)) scratch_.push_back({checked_multiply(term.coefficient, factor), term.atom});
  return from_terms(base);
}

int64_t AffinePool::decompose(const Affine& a) {
  constexpr size_t kMostGrouped = 64;
  int64_t base = a.base;
  const auto all = terms(a);
  if (all.size() == 1) {
    parts_.push_back({all[0].coefficient, atoms_[all[0].atom].self, 1, 0});
    return base;
  }
  if (all.size() > kMostGrouped) {
    for (const auto& term : all) parts_.push_back({term.coefficient, atoms_[term.atom].self, 1, 0});
    return base;
  }
  uint64_t used = 0;
  const auto is_used = [&](size_t i) { return (used >> i & 1) != 0; };
  // What a term divides, and by what: a plain atom divides itself by 1.
  const auto dividend = [&](const AffineTerm& term) -> std::pair<Affine, int64_t> {
    const AffineAtom& atom = atoms_[term.atom];
    return atom.kind == AtomKind::floor_divide ? std::pair(atom.arguments[0], atom.divisor)
                                               : std::pair(atom.self, int64_t{1});
  };
  struct Digit {
    int64_t divisor, coefficient;
  };
  std::array<Digit, kMostGrouped + 1> digits;
  // From the end: a quotient is made after what it divides, so x comes before floor(x/c) and is still unused then.
  for (size_t i = all.size(); i-- > 0;) {
    if (is_used(i)) continue;
    const auto [of, divisor] = dividend(all[i]);
    size_t count = 0;
    uint64_t group = 0;
    for (size_t j = 0; j <= i; ++j) {
      const auto [other, by] = is_used(j) ? std::pair(Affine(), int64_t{0}) : dividend(all[j]);
      if (by == 0 || !same(of, other)) continue;
      digits[count++] = {by, all[j].coefficient};
      group |= uint64_t{1} << j;
    }
    std::sort(digits.begin(), digits.begin() + count,
              [](const Digit& x, const Digit& y) { return x.divisor < y.divisor; });
    bool chain = true;
    for (size_t j = 1; j < count; ++j) chain &= digits[j].divisor % digits[j - 1].divisor == 0;
    if (!chain) {
      used |= uint64_t{1} << i;
      parts_.push_back({all[i].coefficient, of, divisor, 0});
      continue;
    }
    used |= group;
    int64_t coefficient = 0, below = 1;  // the part so far is coefficient × floor(of / below)
    const auto dividends = terms(of);
    if (digits[0].divisor > 1 && digits[0].coefficient % digits[0].divisor == 0) {
      // k·S − k·d·floor(S/d) is k·(S mod d), if k·S is there.
      const int64_t k = -(digits[0].coefficient / digits[0].divisor);
      uint64_t taken = 0;
      size_t matched = 0;
      for (size_t t = 0; t < dividends.size(); ++t) {
        for (size_t j = 0; j < all.size(); ++j) {
          int64_t product = 0;
          if (is_used(j) || all[j].atom != dividends[t].atom ||
              __builtin_mul_overflow(k, dividends[t].coefficient, &product) || product != all[j].coefficient)
            continue;
          taken |= uint64_t{1} << j;
          ++matched;
        }
      }
      int64_t offset = 0;
      if (matched == dividends.size() && !__builtin_mul_overflow(k, of.base, &offset) &&
          !__builtin_sub_overflow(base, offset, &base)) {
        used |= taken;
        coefficient = k;
      }
    }
    for (size_t j = 0; j < count; ++j) {
      if (coefficient != 0) parts_.push_back({coefficient, of, below, digits[j].divisor / below});
      coefficient = saturated(static_cast<__int128>(coefficient) * (digits[j].divisor / below) + digits[j].coefficient);
      below = digits[j].divisor;
    }
    if (coefficient != 0) parts_.push_back({coefficient, of, below, 0});
  }
  return base;
}

int64_t AffinePool::parts(const Affine& a, std::vector<AffinePart>& parts) {
  const size_t begin = parts_.size();
  const int64_t base = decompose(a);
  parts.insert(parts.end(), parts_.begin() + begin, parts_.end());
  parts_.resize(begin);
  return base;
}

AffineBounds AffinePool::part_bounds(const Part& part) {
  const AffineBounds whole = is_atom(part.of) ? atom_of(part.of).bounds : bounds(part.of);
  return scaled(digit(whole, part.divisor, part.modulus), part.coefficient);
}

AffineBounds AffinePool::bounds(const Affine& a) {
  if (a.constant()) return {a.base, a.base};
  const size_t begin = parts_.size();
  const int64_t base = decompose(a);
  AffineBounds sum{base, base};
  for (size_t i = begin; i < parts_.size(); ++i) {
    const Part part = parts_[i];
    const AffineBounds added = part_bounds(part);
    sum = {bound_sum(sum.low, added.low), bound_sum(sum.high, added.high)};
  }
  parts_.resize(begin);
  return sum;
}

}  // namespace foretime::data
