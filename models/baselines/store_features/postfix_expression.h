#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/frontends/ansor/replay/loop_nest.h"

namespace foretime::models {

/// Counts the integer operations of an expression by the classes of auto_scheduler's features.
struct IntegerOperations {
  int64_t add_subtract = 0, multiply = 0, divide_modulo = 0, compare = 0, logic = 0, select = 0;
};

/// One operation of an integer expression in postfix order.
struct IndexOperation {
  enum class Kind : uint8_t {
    constant,  // `value` is the number
    variable,  // `value` is the number of the variable
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

/// Writes integer expressions in the form of TVM's simplifier (arith/canonical_simplify, TVM 0.14): a sum of terms x
/// mod upper / lower × scale, positive terms first, by falling scale. TVM's features depend on this form.
class PostfixExpressions {
 public:
  explicit PostfixExpressions(data::AffinePool& pool) : pool_(&pool) {}

  /// Identifies a written expression. Valid until clear().
  struct Postfix {
    uint32_t begin = 0, size = 0;  // range of operations; size 0: an unknown value
    uint64_t variables = 0;        // bit v mod 64 for each variable v; a variable whose bit is 0 does not occur
  };

  /// Forgets all expressions and keeps the memory. Between two calls, `write` throws DataError for more than kMost
  /// operations, since a shared atom may be written any number of times.
  void clear() {
    operations_.clear();
    parts_.clear();
  }
  static constexpr size_t kMost = size_t{1} << 18;
  /// Sets the pool of the expressions that write() takes from now on.
  void set_pool(data::AffinePool& pool) { pool_ = &pool; }

  /// Writes the expression `value`. `subtracted` is the part of the value that IndexInterval::subtracted describes.
  Postfix write(const data::Affine& value, const data::Affine& subtracted = {});
  /// Returns the form of an index that is not integer arithmetic and may have any value.
  Postfix unknown() { return {0, 0, 0}; }
  std::span<const IndexOperation> operations(const Postfix& form) const {
    return std::span(operations_).subspan(form.begin, form.size);
  }

  /// Adds the operations of an expression to `counts`.
  void count(const Postfix& form, IntegerOperations& counts) const;
  /// Returns whether a variable occurs in an expression.
  bool mentions(const Postfix& form, int32_t variable) const;

  /// Returns bounds of an expression's value, computed operation by operation like TVM's ConstIntBoundAnalyzer;
  /// unbounded for unknown(). Variable v takes values from 0 to largest[v].
  data::AffineBounds bounds(const Postfix& form, std::span<const int64_t> largest);

  /// Returns a variable's coefficient as TVM's feature extraction estimates it; 0, with `found` false, if it is absent.
  int64_t coefficient(const Postfix& form, int32_t variable, bool& found) const;

 private:
  /// Appends the operations of `value` to operations_; `subtracted` as in write().
  void write_value(const data::Affine& value, const data::Affine& subtracted = {});
  /// Merges those of parts_[begin], parts_[begin + 1], … that differ only in their coefficient.
  void join_equal_parts(size_t begin);
  /// Writes a part of a sum, with `scale` in place of its coefficient.
  void write_part(data::AffinePart part, int64_t scale);
  /// Writes (value mod upper mod second) / divisor × scale; a modulus of 0 is left out.
  void write_divided(const data::Affine& value, int64_t upper, int64_t second, int64_t divisor, int64_t scale);
  void write_atom(uint32_t id);
  void push(IndexOperation::Kind kind, int64_t value = 0);

  data::AffinePool* pool_;
  std::vector<IndexOperation> operations_;
  std::vector<data::AffinePart> parts_;
  std::vector<data::AffineBounds> stack_;
};

}  // namespace foretime::models
