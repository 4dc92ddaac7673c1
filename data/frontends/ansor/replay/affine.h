#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace foretime::data {

/// An integer expression: base + Σ coefficient × atom. An atom is a variable, floor(expression / constant), or another
/// operation that cannot be written as such a sum. The terms are in an AffinePool, sorted by atom; remainders are
/// written as x − c·floor(x/c), and nested divisions are merged, so most equal expressions have equal terms.
struct Affine {
  int64_t base = 0;
  uint32_t first = 0, count = 0;  // range of the terms in the pool

  bool constant() const { return count == 0; }
  static Affine of(int64_t value) { return {value, 0, 0}; }  // the constant `value`
};

/// Holds one term of a sum: coefficient × atom.
struct AffineTerm {
  int64_t coefficient = 0;
  uint32_t atom = 0;  // number of the atom in the pool
  bool operator==(const AffineTerm&) const = default;
};

/// Lists the kinds of atoms.
enum class AtomKind : uint8_t {
  variable,
  floor_divide,     // floor(arguments[0] / divisor)
  floor_divide_by,  // floor(arguments[0] / arguments[1])
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

/// Returns `value` limited to ±kUnbounded.
int64_t saturated(__int128 value);
/// Returns the sum of two bounds, limited to ±kUnbounded; an unbounded one stays so, −kUnbounded before kUnbounded.
int64_t bound_sum(int64_t a, int64_t b);
/// Returns floor(a / divisor) for a bound `a`; ±kUnbounded stays so. The divisor is above 0.
int64_t bound_quotient(int64_t a, int64_t divisor);
/// Returns bounds of the products of two values with the bounds `a` and `b`, limited to ±kUnbounded.
AffineBounds bound_product(const AffineBounds& a, const AffineBounds& b);

struct AffineAtom {
  AtomKind kind = AtomKind::variable;
  int32_t variable = -1;                 // number of the variable; −1 for other kinds
  int64_t divisor = 0;                   // constant divisor of kind floor_divide; 0 for other kinds
  std::array<Affine, 3> arguments{};     // operands; the constant 0 where the kind has fewer than three
  AffineBounds bounds, argument_bounds;  // bounds of the atom's values, and of arguments[0]
  Affine self;                           // expression that consists of this atom alone, with coefficient 1
  int32_t depth = 1;                     // levels of atoms inside of each other, this one included
};

/// Holds one part of a sum: coefficient × (floor(of / divisor) mod modulus). Bounds of such sums are nearly exact.
struct AffinePart {
  int64_t coefficient = 0;
  Affine of;                         // the expression that is divided
  int64_t divisor = 1, modulus = 0;  // modulus 0: no remainder is taken
};

/// An interval of expressions, both ends included.
struct AffineInterval {
  Affine low, high;
};

/// Holds terms and atoms of the expressions of one schedule, and calculates with them. Every result is the exact value
/// of the operation. All calculations throw DataError for numbers beyond ±2^62, divisions by the constant 0, more than
/// 2^18 terms in the pool, and atoms nested deeper than 200.
class AffinePool {
 public:
  AffinePool();
  /// Removes all atoms and terms, so that earlier expressions become invalid, and sets keep_divisors(false).
  void clear();

  /// Returns the variable with the number `number`, which the caller chooses, and the bounds of its values; a constant
  /// if both bounds are equal. Later calls with the number keep the bounds of the first one.
  Affine variable(int32_t number, AffineBounds bounds);

  Affine add(const Affine& a, const Affine& b) { return combine(a, b, 1); }
  Affine subtract(const Affine& a, const Affine& b) { return combine(a, b, -1); }
  Affine add(const Affine& a, int64_t b) const;
  Affine scale(const Affine& a, int64_t factor);  // a × factor
  Affine multiply(const Affine& a, const Affine& b);
  Affine floor_divide(const Affine& a, int64_t divisor);  // floor(a / divisor)
  /// Sets whether divisions keep their divisors: 14·x / 4 is then not reduced to lowest terms, as in TVM. The values
  /// are the same, but fewer equal expressions have equal terms.
  void keep_divisors(bool keep) { keep_divisors_ = keep; }
  Affine floor_divide(const Affine& a, const Affine& b);  // floor(a / b)
  Affine floor_modulo(const Affine& a, const Affine& b);  // a − b × floor(a / b)
  Affine divide(const Affine& a, const Affine& b);        // a / b truncated towards 0
  Affine modulo(const Affine& a, const Affine& b);        // a − b × divide(a, b)
  Affine minimum(const Affine& a, const Affine& b);
  Affine maximum(const Affine& a, const Affine& b);
  Affine equal(const Affine& a, const Affine& b);  // 1 if a == b, otherwise 0
  Affine less(const Affine& a, const Affine& b);   // 1 if a < b, otherwise 0
  /// Returns "a and b" or "a or b", by `kind` (logical_and or logical_or), for expressions with the values 0 and 1.
  Affine logical(AtomKind kind, const Affine& a, const Affine& b);
  Affine negate(const Affine& a);                                            // 1 if a is 0, otherwise 0
  Affine select(const Affine& condition, const Affine& a, const Affine& b);  // `a` if the condition is not 0, else `b`

  /// Returns whether two expressions have the same base and terms. Equal expressions may have different terms.
  bool same(const Affine& a, const Affine& b) const;
  AffineBounds bounds(const Affine& a);  // bounds that hold all values of `a`; they need not be tight

  /// Returns the interval that replaces a variable; null if the variable remains.
  using Relaxation = std::function<const AffineInterval*(int32_t variable)>;
  /// Returns an interval that holds the values of `a` for all values of its variables in the intervals that
  /// `relaxation` returns; it need not be tight. Throws DataError for an operation without bounds.
  AffineInterval relax(const Affine& a, const Relaxation& relaxation);

  /// Appends parts to `parts`, whose sum is `a` minus the returned number. x − c·floor(x / c) becomes a part mod c.
  int64_t parts(const Affine& a, std::vector<AffinePart>& parts);

  std::span<const AffineTerm> terms(const Affine& a) const { return std::span(terms_).subspan(a.first, a.count); }
  const AffineAtom& atom(uint32_t id) const { return atoms_[id]; }
  /// Returns whether an expression consists of one atom with coefficient 1.
  bool is_atom(const Affine& a) const { return a.count == 1 && a.base == 0 && terms_[a.first].coefficient == 1; }
  const AffineAtom& atom_of(const Affine& a) const { return atoms_[terms_[a.first].atom]; }  // atom of its first term
  /// Merges the nested divisions of a part: floor(floor(x / a) / b) is floor(x / (a·b)).
  void merge_divisions(AffinePart& part) const;

  /// Returns the value of `a` with the variables' values from `value_of`. A division by a value of 0 gives 0.
  int64_t evaluate(const Affine& a, const std::function<int64_t(int32_t)>& value_of) const;
  /// Returns an expression as TVM prints it, with the variables' names from `name_of`.
  std::string to_text(const Affine& a, const std::function<std::string(int32_t)>& name_of) const;

 private:
  using Part = AffinePart;
  /// Returns a + sign × b.
  Affine combine(const Affine& a, const Affine& b, int64_t sign);
  Affine from_terms(int64_t base);  // base + the terms of scratch_
  /// Returns the expression of an atom, adding the atom to the pool unless it exists.
  Affine intern(AffineAtom atom);
  bool equals(const AffineAtom& a, const AffineAtom& b) const;  // same operation on the same arguments
  uint64_t hash(const AffineAtom& atom) const;
  Affine value_of(const Part& part);  // the part as an expression
  /// Returns floor(a / divisor) like floor_divide() with keep_divisors(true).
  Affine divide_as_it_is(const Affine& a, int64_t divisor);
  Affine quotient_atom(const Affine& a, int64_t divisor);  // atom floor(a / divisor), not simplified
  void grow_table();
  AffineBounds atom_bounds(const AffineAtom& atom);
  AffineBounds part_bounds(const Part& part);  // bounds of value_of(part)
  /// Returns whether floor(rest / divisor) is also floor(kept / reduced), where `kept` lacks small terms of `rest`.
  bool drop_small_terms(const Affine& rest, int64_t divisor, Affine& kept, int64_t& reduced);
  int64_t decompose(const Affine& a);  // parts() that appends to parts_, from which the caller removes them
  AffineInterval relax_atom(uint32_t id, const Relaxation& relaxation);
  AffineInterval relax_part(const Part& part, const Relaxation& relaxation);

  bool keep_divisors_ = false;
  std::vector<AffineTerm> terms_, scratch_;
  std::vector<AffineAtom> atoms_;
  std::vector<Part> parts_;
  std::vector<uint32_t> table_;  // hash table of atoms: atom + 1; 0: free
};

}  // namespace foretime::data
