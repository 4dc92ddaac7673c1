#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace foretime::data {

/// An integer expression: base + Σ coefficient × atom. An atom is a variable, floor(expression / constant), or one
/// of the rarer operations that do not decompose. The terms are in a pool, sorted by atom; remainders are written as x
/// − c·floor(x/c), and nested divisions are merged, so most equal expressions have equal terms.
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

/// Lists the kinds of atoms.
enum class AtomKind : uint8_t {
  variable,
  floor_divide,     // arguments[0] / divisor
  floor_divide_by,  // arguments[0] / arguments[1]
  minimum,
  maximum,
  multiply,
  divide,  // truncating division
  equal,   // comparisons and logic have the values 0 and 1
  less,
  logical_and,
  logical_or,
  logical_not,
  select,
};

/// Bounds all values of an expression, inclusive; ±kUnbounded means no bound.
struct AffineBounds {
  int64_t low = 0, high = 0;
};
constexpr int64_t kUnbounded = int64_t{1} << 60;

/// Limits a value to ±kUnbounded, beyond which it is unknown. Bounds use this saturating arithmetic.
int64_t saturated(__int128 value);
/// Bound arithmetic: returns a bound of a sum, quotient or product, limited to ±kUnbounded.
int64_t bound_sum(int64_t a, int64_t b);
int64_t bound_quotient(int64_t a, int64_t divisor);
AffineBounds bound_product(const AffineBounds& a, const AffineBounds& b);

/// Describes an atom.
struct AffineAtom {
  AtomKind kind = AtomKind::variable;
  int32_t variable = -1;
  int64_t divisor = 0;
  std::array<Affine, 3> arguments{};
  AffineBounds bounds, argument_bounds;  // bounds of the atom and of arguments[0]
  Affine self;                           // 1 × the atom
  int32_t depth = 1;                     // nesting depth of atoms, bounds recursion
};

/// One part of a sum: coefficient × (floor(of / divisor) mod modulus). Bounds of such sums are nearly exact.
struct AffinePart {
  int64_t coefficient = 0;
  Affine of;
  int64_t divisor = 1, modulus = 0;  // modulus 0: none
};

/// An interval of expressions, both ends included.
struct AffineInterval {
  Affine low, high;
};

/// Holds terms and atoms of the expressions of one schedule, and calculates with them. Every result is the exact value
/// of the operation. Throws DataError if a number leaves 64 bits or an expression becomes unreasonably large.
class AffinePool {
 public:
  AffinePool();
  /// Forgets all atoms and terms and keeps the memory.
  void clear();

  /// Returns a variable identified by a number of the caller; the bounds of its first use are kept.
  Affine variable(int32_t number, AffineBounds bounds);

  Affine add(const Affine& a, const Affine& b) { return combine(a, b, 1); }
  Affine subtract(const Affine& a, const Affine& b) { return combine(a, b, -1); }
  Affine add(const Affine& a, int64_t b) const;
  /// Returns a × factor.
  Affine scale(const Affine& a, int64_t factor);
  Affine multiply(const Affine& a, const Affine& b);
  /// Returns floor(a / divisor). Divisors must not be 0.
  Affine floor_divide(const Affine& a, int64_t divisor);
  /// Sets whether divisions keep their divisors: 14·x / 4 is then not reduced to lowest terms, as in TVM. The values
  /// are the same, but fewer equal expressions have equal terms.
  void keep_divisors(bool keep) { keep_divisors_ = keep; }
  /// Returns floor(a / b); floor_modulo() returns the remainder that goes with it.
  Affine floor_divide(const Affine& a, const Affine& b);
  Affine floor_modulo(const Affine& a, const Affine& b);
  /// Returns the quotient truncated towards 0; modulo() returns the remainder that goes with it.
  Affine divide(const Affine& a, const Affine& b);
  Affine modulo(const Affine& a, const Affine& b);
  /// Returns a or b if their bounds decide, else a new atom; maximum() likewise.
  Affine minimum(const Affine& a, const Affine& b);
  Affine maximum(const Affine& a, const Affine& b);
  /// Comparisons and logic return expressions with the values 0 and 1.
  Affine equal(const Affine& a, const Affine& b);
  Affine less(const Affine& a, const Affine& b);
  Affine logical(AtomKind kind, const Affine& a, const Affine& b);
  Affine negate(const Affine& a);
  Affine select(const Affine& condition, const Affine& a, const Affine& b);

  /// Returns whether two expressions have the same terms.
  bool same(const Affine& a, const Affine& b) const;
  /// Returns bounds of the values of `a`.
  AffineBounds bounds(const Affine& a);

  /// Returns the interval of values that a variable takes; null if it remains a variable.
  using Relaxation = std::function<const AffineInterval*(int32_t variable)>;
  /// Returns the smallest interval of the supported kinds that holds all values of `a` under the relaxation.
  AffineInterval relax(const Affine& a, const Relaxation& relaxation);

  /// Appends parts whose sum is `a` minus the returned base; remainders are recombined.
  int64_t parts(const Affine& a, std::vector<AffinePart>& parts);

  std::span<const AffineTerm> terms(const Affine& a) const { return std::span(terms_).subspan(a.first, a.count); }
  const AffineAtom& atom(uint32_t id) const { return atoms_[id]; }
  /// Returns whether an expression is a single atom.
  bool is_atom(const Affine& a) const { return a.count == 1 && a.base == 0 && terms_[a.first].coefficient == 1; }
  const AffineAtom& atom_of(const Affine& a) const { return atoms_[terms_[a.first].atom]; }
  /// Merges the nested divisions of a part: floor(floor(x / a) / b) is floor(x / (a·b)).
  void merge_divisions(AffinePart& part) const;

  /// Returns the value of `a` with the variables' values from `value_of`.
  int64_t evaluate(const Affine& a, const std::function<int64_t(int32_t)>& value_of) const;
  /// Returns an expression as TVM prints it, with the variables' names from `name_of`.
  std::string to_text(const Affine& a, const std::function<std::string(int32_t)>& name_of) const;

 private:
  using Part = AffinePart;
  /// Returns a + sign × b.
  Affine combine(const Affine& a, const Affine& b, int64_t sign);
  Affine from_terms(int64_t base);  // takes scratch_
  /// Returns the expression of an atom, adding the atom to the pool unless it exists.
  Affine intern(AffineAtom atom);
  bool equals(const AffineAtom& a, const AffineAtom& b) const;
  uint64_t hash(const AffineAtom& atom) const;
  Affine value_of(const Part& part);
  /// Returns floor(a / divisor) without splitting `a` into parts.
  Affine divide_as_it_is(const Affine& a, int64_t divisor);
  Affine quotient_atom(const Affine& a, int64_t divisor);
  void grow_table();
  AffineBounds atom_bounds(const AffineAtom& atom);
  AffineBounds part_bounds(const Part& part);
  /// Drops the terms of `rest` that cannot change floor(rest / divisor); reduces the divisor by a common factor.
  bool drop_small_terms(const Affine& rest, int64_t divisor, Affine& kept, int64_t& reduced);
  /// Writes `a` as base + parts, from parts_[begin] on; the caller removes the parts again.
  int64_t decompose(const Affine& a);
  AffineInterval relax_atom(uint32_t id, const Relaxation& relaxation);
  AffineInterval relax_part(const Part& part, const Relaxation& relaxation);

  bool keep_divisors_ = false;
  std::vector<AffineTerm> terms_, scratch_;
  std::vector<AffineAtom> atoms_;
  std::vector<Part> parts_;
  std::vector<uint32_t> table_;  // hash table of atoms: atom + 1; 0: free
};

}  // namespace foretime::data
