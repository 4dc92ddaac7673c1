#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace foretime::data {

/// An integer expression: base + Σ coefficient × atom. An atom is a variable, or floor(expression / constant), or one
/// of the rarer operations that do not decompose. The terms lie in a pool, sorted by atom; remainders are written as x
/// − c·floor(x/c), and nested divisions are merged, so most expressions that are equal have equal terms.
struct Affine {
  int64_t base = 0;
  uint32_t first = 0, count = 0;  // terms in the pool

  bool constant() const { return count == 0; }
  static Affine of(int64_t value) { return {value, 0, 0}; }
};

struct AffineTerm {
  int64_t coefficient = 0;
  uint32_t atom = 0;
  bool operator==(const AffineTerm&) const = default;
};

enum class AtomKind : uint8_t {
  variable,
  floor_divide,     // arguments[0] / divisor
  floor_divide_by,  // by an expression
  minimum,
  maximum,
  multiply,
  divide,  // truncating
  equal,   // comparisons and logic are 0 or 1
  less,
  logical_and,
  logical_or,
  logical_not,
  select,
};

/// All values of the terms lie between these; ±kUnbounded stands for no bound.
struct AffineBounds {
  int64_t low = 0, high = 0;
};
constexpr int64_t kUnbounded = int64_t{1} << 60;

/// Arithmetic of bounds: it saturates, and past ±kUnbounded nothing is known.
int64_t saturated(__int128 value);
int64_t bound_sum(int64_t a, int64_t b);
int64_t bound_quotient(int64_t a, int64_t divisor);
AffineBounds bound_product(const AffineBounds& a, const AffineBounds& b);

struct AffineAtom {
  AtomKind kind = AtomKind::variable;
  int32_t variable = -1;
  int64_t divisor = 0;
  std::array<Affine, 3> arguments{};
  AffineBounds bounds, argument_bounds;  // of the atom, of arguments[0]
  Affine self;                           // 1 × the atom
  int32_t depth = 1;                     // atoms inside of each other: bounds recursion
};

/// coefficient × (floor(of / divisor) mod modulus): sums of these have bounds that are nearly exact.
struct AffinePart {
  int64_t coefficient = 0;
  Affine of;
  int64_t divisor = 1, modulus = 0;  // modulus 0: none
};

/// Inclusive.
struct AffineInterval {
  Affine low, high;
};

/// Terms and atoms of the expressions of one schedule, and the arithmetic on them. Every result is the exact value of
/// the operation. Throws DataError where a number leaves 64 bits or an expression becomes unreasonably large.
class AffinePool {
 public:
  AffinePool();
  /// Forgets all atoms and terms, and keeps the memory.
  void clear();

  /// A variable known by a number chosen by the caller; the bounds of its first use hold.
  Affine variable(int32_t number, AffineBounds bounds);

  Affine add(const Affine& a, const Affine& b) { return combine(a, b, 1); }
  Affine subtract(const Affine& a, const Affine& b) { return combine(a, b, -1); }
  Affine add(const Affine& a, int64_t b) const;
  Affine scale(const Affine& a, int64_t factor);
  Affine multiply(const Affine& a, const Affine& b);
  /// Divisors are not 0.
  Affine floor_divide(const Affine& a, int64_t divisor);
  /// While it is set, divisions are not reduced to lowest terms: 14·x / 4 stays so, as TVM leaves it. The values are
  /// the same, but fewer expressions that are equal have equal terms.
  void keep_divisors(bool keep) { keep_divisors_ = keep; }
  Affine floor_divide(const Affine& a, const Affine& b);
  Affine floor_modulo(const Affine& a, const Affine& b);
  Affine divide(const Affine& a, const Affine& b);
  Affine modulo(const Affine& a, const Affine& b);
  Affine minimum(const Affine& a, const Affine& b);
  Affine maximum(const Affine& a, const Affine& b);
  Affine equal(const Affine& a, const Affine& b);
  Affine less(const Affine& a, const Affine& b);
  Affine logical(AtomKind kind, const Affine& a, const Affine& b);
  Affine negate(const Affine& a);
  Affine select(const Affine& condition, const Affine& a, const Affine& b);

  bool same(const Affine& a, const Affine& b) const;
  AffineBounds bounds(const Affine& a);

  /// Where a variable is not one value but all of an interval. Null: it stays a variable.
  using Relaxation = std::function<const AffineInterval*(int32_t variable)>;
  /// The least interval of the kinds used here that holds all values of `a` under the relaxation.
  AffineInterval relax(const Affine& a, const Relaxation& relaxation);

  /// Appends parts whose sum is `a` without the base that is returned; remainders are put together again.
  int64_t parts(const Affine& a, std::vector<AffinePart>& parts);

  std::span<const AffineTerm> terms(const Affine& a) const { return std::span(terms_).subspan(a.first, a.count); }
  const AffineAtom& atom(uint32_t id) const { return atoms_[id]; }
  /// Whether an expression is one atom, and which one.
  bool is_atom(const Affine& a) const { return a.count == 1 && a.base == 0 && terms_[a.first].coefficient == 1; }
  const AffineAtom& atom_of(const Affine& a) const { return atoms_[terms_[a.first].atom]; }
  /// floor(floor(x / a) / b) is floor(x / (a·b)): merges the divisions that a part consists of.
  void merge_divisions(AffinePart& part) const;

  /// The value where each variable has the value that `value_of` gives.
  int64_t evaluate(const Affine& a, const std::function<int64_t(int32_t)>& value_of) const;
  /// As TVM prints expressions, with the names that `name_of` gives to variables.
  std::string to_text(const Affine& a, const std::function<std::string(int32_t)>& name_of) const;

 private:
  using Part = AffinePart;
  Affine combine(const Affine& a, const Affine& b, int64_t sign);
  Affine from_terms(int64_t base);  // of scratch_
  Affine intern(AffineAtom atom);
  bool equals(const AffineAtom& a, const AffineAtom& b) const;
  uint64_t hash(const AffineAtom& atom) const;
  Affine value_of(const Part& part);
  Affine divide_as_it_is(const Affine& a, int64_t divisor);
  Affine quotient_atom(const Affine& a, int64_t divisor);
  void grow_table();
  AffineBounds atom_bounds(const AffineAtom& atom);
  AffineBounds part_bounds(const Part& part);
  bool drop_small_terms(const Affine& rest, int64_t divisor, Affine& kept, int64_t& reduced);
  /// Writes `a` as base + parts, from parts_[begin] on; the caller shrinks parts_ again.
  int64_t decompose(const Affine& a);
  AffineInterval relax_atom(uint32_t id, const Relaxation& relaxation);
  AffineInterval relax_part(const Part& part, const Relaxation& relaxation);

  bool keep_divisors_ = false;
  std::vector<AffineTerm> terms_, scratch_;
  std::vector<AffineAtom> atoms_;
  std::vector<Part> parts_;
  std::vector<uint32_t> table_;  // of atoms by hash: atom + 1, 0 where empty
};

}  // namespace foretime::data
