#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/frontends/ansor/dag/compute_dag.h"
#include "data/frontends/ansor/dag/expression.h"
#include "data/frontends/ansor/replay/loop_nest.h"
#include "models/baselines/store_features/postfix_expression.h"
#include "models/baselines/store_features/store_value.h"

namespace foretime::models {

/// Holds what is known of an expression's value without running the loops.
struct KnownValue {
  enum class Type : uint8_t { integer, real, truth } type = Type::real;
  bool constant = false;      // the value is known: `number` (real, truth) or `affine` (integer)
  bool opaque = false;        // integer: only the type is known, as of loaded data; `affine` is unused
  double number = 0.0;        // real and truth: value if `constant`
  data::Affine affine{};      // integer: value as an expression of loop variables
  data::Affine subtracted{};  // integer: IndexInterval::subtracted

  static KnownValue of(const data::Affine& affine) {
    return {Type::integer, affine.constant(), false, 0.0, affine, {}};
  }
  static KnownValue real() { return {}; }
  static KnownValue real(double number) { return {Type::real, true, false, number, {}, {}}; }
  static KnownValue truth() { return {Type::truth, false, false, 0.0, {}, {}}; }
  static KnownValue truth(bool value) { return {Type::truth, true, false, value ? 1.0 : 0.0, {}, {}}; }
};

/// Walks the expression of one store: counts the operations that TVM's simplifier leaves in `count`, appends accesses
/// to `loads` and `load_forms`. `axes` are the values of the stage's axes. Throws DataError for invalid expressions.
struct StoreWalk {
  /// Returns the value of the body of tensor `output` of `stage` at the position `axes`.
  KnownValue body(size_t stage, size_t output, std::span<const KnownValue> axes);
  /// Returns the new value of tensor `output` of a tuple, whose combiner reads the current values of the others.
  KnownValue combined(size_t stage, size_t output, std::span<const KnownValue> axes);
  /// Returns the value of variable `number` of the combiner that combined() walks: first the current value of each
  /// output (all but its own are counted as loads), then the bodies that are combined with them.
  KnownValue operand(size_t number);
  /// Returns the value of a loaded element of this type: a real, or an opaque integer for any type but floats.
  static KnownValue loaded(const std::string& type);
  /// Appends an access of `memory` at `indices` to `loads`.
  void add_load(size_t memory, std::span<const KnownValue> indices);
  /// Counts the operations that an integer value takes; nothing for other types and opaque values.
  void count_integer(const KnownValue& value);
  /// Counts a visited node of an expression. Throws DataError after 100,000 of one store.
  void count_visit();
  /// Returns the value of the expression `id` at the position `axes`.
  KnownValue of(int32_t id, std::span<const KnownValue> axes);
  /// Does the same as of() for a load; one of an inlined stage gives the value of that stage's body.
  KnownValue load(int32_t id, std::span<const KnownValue> axes);
  /// Does the same as of() for a select, or for if_then_else if `lazy`: condition, value if true, value if false.
  KnownValue choice(int32_t id, std::span<const KnownValue> axes, bool lazy);
  /// Does the same as of() for a call of a function.
  KnownValue call(int32_t id, std::span<const KnownValue> axes);
  /// Does the same as of() for a conversion to another type.
  KnownValue cast(int32_t id, std::span<const KnownValue> axes);
  /// Returns whether the expression `id` or a part of it is a select.
  bool chooses(int32_t id);
  /// Returns whether the expression `id` has no real numbers, loads, calls and texts.
  bool is_integer(int32_t id);
  /// Returns the value of integer arithmetic with a select of lengths, as in adaptive pooling, without simplification.
  KnownValue choice_of_lengths(int32_t id, std::span<const KnownValue> axes);
  /// Returns the result of an operation on integers; counts it here only if one of them is opaque.
  KnownValue known_arithmetic(data::ExpressionKind kind, const KnownValue& a, const KnownValue& b);
  /// Returns the result of an operation on reals; folds constants and removes operations by 0 and 1 without effect.
  KnownValue real_arithmetic(data::ExpressionKind kind, const KnownValue& a, const KnownValue& b);
  /// Returns the truth of a < b, or of a ≤ b if `or_equal`; counts the comparison if its truth is not known.
  KnownValue less(const KnownValue& a, const KnownValue& b, bool or_equal);
  /// Returns the truth of a = b, or of a ≠ b if `negated`; counts the comparison if its truth is not known.
  KnownValue equal(const KnownValue& a, const KnownValue& b, bool negated);
  /// Returns the truth of a conjunction or disjunction; counts only the parts that known truths leave.
  KnownValue logical(const data::ExpressionTree::Node& node, int32_t id, std::span<const KnownValue> axes);
  /// Counts the operations of `difference` < 0, after TVM's division by common factors and splitting of divisions.
  void count_less(data::Affine difference, const data::Affine& subtracted);
  /// Counts one side of a comparison without its number: the terms, with the sign that makes one of them positive.
  void count_terms(const data::Affine& sum, const data::Affine& subtracted);

  data::LoopNest& nest;
  PostfixExpressions& forms;
  StoreOperations& count;
  std::vector<StoreLoad>& loads;
  std::vector<PostfixExpressions::Postfix>& load_forms;
  data::AffinePool& pool = nest.pool;
  const data::ComputeDag& dag = *nest.dag;
  const data::ExpressionTree& tree = nest.dag->expressions;
  std::vector<data::AffinePart> parts{};
  int64_t visited = 0;
  struct Combination {
    size_t stage = 0, output = 0;
    std::span<const KnownValue> axes{};
  } combination{};
};

}  // namespace foretime::models
