#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/frontends/ansor/replay/loop_nest.h"

namespace foretime::data {

/// How many integer operations an expression has, by the classes of auto_scheduler's features.
struct IntegerOperations {
  int64_t add_subtract = 0, multiply = 0, divide_modulo = 0, compare = 0, logic = 0, select = 0;
};

/// One operation of an integer expression in postfix order.
struct IndexOperation {
  enum class Kind : uint8_t {
    constant,  // value
    variable,  // value: its number
    add,
    subtract,
    multiply,
    divide,  // floor
    modulo,
    truncate_divide,
    minimum,
    maximum,
    equal,
    less,
    logical_and,
    logical_or,
    logical_not,
    select,
  };
  Kind kind = Kind::constant;
  int64_t value = 0;
};

/// Integer expressions written out as TVM's simplifier leaves them (arith/canonical_simplify, TVM 0.14): a sum of
/// x mod upper / lower × scale by falling scale, the positive ones first. What TVM computes from the writing rather
/// than from the value depends on this: operation counts, bounds, strides.
class PostfixExpressions {
 public:
  explicit PostfixExpressions(AffinePool& pool) : pool_(&pool) {}

  /// An expression, as a run of operations.
  struct Postfix {
    uint32_t begin = 0, size = 0;
    uint64_t variables = 0;  // bit v mod 64 for each variable v: what is not here does not occur
  };

  /// Forgets all expressions, and keeps the memory. Between two calls at most kMost operations are written: past it
  /// `write` throws DataError, for what stands once among atoms may occur in a form any number of times.
  void clear() {
    operations_.clear();
    parts_.clear();
  }
  static constexpr size_t kMost = size_t{1} << 18;
  void set_pool(AffinePool& pool) { pool_ = &pool; }

  /// `taken`: what the value contains with a minus sign, and what stays so: IndexInterval::taken.
  Postfix write(const Affine& value, const Affine& taken = {});
  /// A form that takes any value: of an index that is no arithmetic of integers.
  Postfix unknown() { return {0, 0, 0}; }
  std::span<const IndexOperation> operations(const Postfix& form) const {
    return std::span(operations_).subspan(form.begin, form.size);
  }

  void count(const Postfix& form, IntegerOperations& counts) const;
  bool mentions(const Postfix& form, int32_t variable) const;

  /// Values between bounds, computed operation by operation as TVM's ConstIntBoundAnalyzer does. `largest` [variables]
  /// are the largest values of the variables, whose smallest are 0.
  AffineBounds bounds(const Postfix& form, std::span<const int64_t> largest);

  /// The coefficient that TVM's feature extraction sees for a variable: a guess from the operations that follow it.
  /// False in `found` where the variable does not occur.
  int64_t coefficient(const Postfix& form, int32_t variable, bool& found) const;

 private:
  void write_value(const Affine& value, const Affine& taken = {});
  void join_equal_parts(size_t begin);
  void write_part(AffinePart part, int64_t scale);
  void write_divided(const Affine& of, int64_t upper, int64_t second, int64_t divisor, int64_t scale);
  void write_atom(uint32_t id);
  void push(IndexOperation::Kind kind, int64_t value = 0);

  AffinePool* pool_;
  std::vector<IndexOperation> operations_;
  std::vector<AffinePart> parts_;
  std::vector<AffineBounds> stack_;
};

}  // namespace foretime::data
