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

/// Holds the part of an expression's value that is known without running the loops.
struct KnownValue {
  enum class Type : uint8_t { integer, real, truth } type = Type::real;
  bool constant = false;  // real and truth: `number` is the value
  bool opaque = false;    // integer: loaded data; `affine` is unused
  double number = 0.0;
  data::Affine affine{};      // integer
  data::Affine subtracted{};  // integer: IndexInterval::subtracted

  static KnownValue of(const data::Affine& affine) {
    return {Type::integer, affine.constant(), false, 0.0, affine, {}};
  }
  static KnownValue real() { return {}; }
  static KnownValue real(double number) { return {Type::real, true, false, number, {}, {}}; }
  static KnownValue truth() { return {Type::truth, false, false, 0.0, {}, {}}; }
  static KnownValue truth(bool value) { return {Type::truth, true, false, value ? 1.0 : 0.0, {}, {}}; }
};

/// Walks the expression of one store, counts the remaining operations and collects its loads.
struct StoreWalk {
  /// Returns the value of the body of tensor `output` of `stage` at the position `axes`.
  KnownValue body(size_t stage, size_t output, std::span<const KnownValue> axes);
  /// Returns the new value of tensor `output` of a tuple, whose combiner reads the current values of the others.
  KnownValue combined(size_t stage, size_t output, std::span<const KnownValue> axes);
  /// Returns the value of variable `number` of the combiner that combined() walks: first the current value of each
  /// output (all but its own are counted as loads), then the bodies that are combined with them.
  KnownValue operand(size_t number);
  /// Returns the value of a loaded element of this type.
  static KnownValue loaded(const std::string& type);
  void add_load(size_t memory, std::span<const KnownValue> indices);
  void count_integer(const KnownValue& value);
  /// Counts a visited node. Throws DataError above the limit.
  void count_visit();
  /// Returns the value of the expression `id` at the position `axes`.
  KnownValue of(int32_t id, std::span<const KnownValue> axes);
  KnownValue load(int32_t id, std::span<const KnownValue> axes);
  KnownValue choice(int32_t id, std::span<const KnownValue> axes, bool lazy);
  KnownValue call(int32_t id, std::span<const KnownValue> axes);
  KnownValue cast(int32_t id, std::span<const KnownValue> axes);
  /// Returns whether an expression is integer arithmetic that contains a choice.
  bool chooses(int32_t id);
  bool is_integer(int32_t id);
  /// Returns a choice among lengths, as in adaptive pooling, without simplification.
  KnownValue choice_of_lengths(int32_t id, std::span<const KnownValue> axes);
  KnownValue known_arithmetic(data::ExpressionKind kind, const KnownValue& a, const KnownValue& b);
  /// Returns the result of an operation on reals; folds constants and removes operations by 0 and 1 without effect.
  KnownValue real_arithmetic(data::ExpressionKind kind, const KnownValue& a, const KnownValue& b);
  /// Returns a < b, or a ≤ b if `or_equal`.
  KnownValue less(const KnownValue& a, const KnownValue& b, bool or_equal);
  KnownValue equal(const KnownValue& a, const KnownValue& b, bool negated);
  KnownValue logical(const data::ExpressionTree::Node& node, int32_t id, std::span<const KnownValue> axes);
  /// Counts the operations of an undecided `difference` < 0: TVM brings numbers to one side, divides by common factors,
  /// and splits divisions.
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
