#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/frontends/ansor/dag/compute_dag.h"
#include "data/frontends/ansor/dag/expression.h"
#include "data/frontends/ansor/features/postfix_expression.h"
#include "data/frontends/ansor/features/store_value.h"
#include "data/frontends/ansor/replay/loop_nest.h"

namespace foretime::data {

/// The value of an expression: what of it is known without running the loops.
struct KnownValue {
  enum class Type : uint8_t { integer, real, truth } type = Type::real;
  bool constant = false;  // of real and truth: `number` is the value
  bool opaque = false;    // integer: of loaded data; `affine` says nothing
  double number = 0.0;
  Affine affine{};  // integer
  Affine taken{};   // integer: IndexInterval::taken

  static KnownValue of(const Affine& affine) { return {Type::integer, affine.constant(), false, 0.0, affine, {}}; }
  static KnownValue real() { return {}; }
  static KnownValue real(double number) { return {Type::real, true, false, number, {}, {}}; }
  static KnownValue truth() { return {Type::truth, false, false, 0.0, {}, {}}; }
  static KnownValue truth(bool value) { return {Type::truth, true, false, value ? 1.0 : 0.0, {}, {}}; }
};

/// Walks the expression of one store: counts what stays of it and collects its loads.
struct StoreWalk {
  KnownValue body(size_t stage, size_t output, std::span<const KnownValue> axes);
  /// What becomes of tensor `output` of a tuple, which reads what the others are so far.
  KnownValue combined(size_t stage, size_t output, std::span<const KnownValue> axes);
  KnownValue operand(size_t number);
  static KnownValue loaded(const std::string& type);
  void add_load(size_t memory, std::span<const KnownValue> indices);
  void count_integer(const KnownValue& value);
  void look();
  KnownValue of(int32_t id, std::span<const KnownValue> axes);
  KnownValue load(int32_t id, std::span<const KnownValue> axes);
  KnownValue choice(int32_t id, std::span<const KnownValue> axes, bool lazy);
  KnownValue call(int32_t id, std::span<const KnownValue> axes);
  KnownValue cast(int32_t id, std::span<const KnownValue> axes);
  /// Whether an expression is arithmetic of integers with a choice in it.
  bool chooses(int32_t id);
  bool is_integer(int32_t id);
  /// Choices among lengths, as adaptive pooling has them, are written as they come.
  KnownValue choice_of_lengths(int32_t id, std::span<const KnownValue> axes);
  KnownValue known_arithmetic(ExpressionKind kind, const KnownValue& a, const KnownValue& b);
  /// Numbers are folded, and what 0 and 1 do not change.
  KnownValue real_arithmetic(ExpressionKind kind, const KnownValue& a, const KnownValue& b);
  /// a < b, or a ≤ b.
  KnownValue less(const KnownValue& a, const KnownValue& b, bool or_equal);
  KnownValue equal(const KnownValue& a, const KnownValue& b, bool negated);
  KnownValue logical(const ExpressionTree::Node& node, int32_t id, std::span<const KnownValue> axes);
  /// Counts what is left of `difference` < 0, which is not decided: TVM brings numbers to one side, divides by common
  /// factors, and takes divisions apart.
  void count_less(Affine difference, const Affine& taken);
  /// Counts a comparison's side without its number: the terms, with the sign that gives one of them a plus.
  void count_terms(const Affine& sum, const Affine& taken);

  LoopNest& nest;
  PostfixExpressions& forms;
  StoreOperations& count;
  std::vector<StoreLoad>& loads;
  std::vector<PostfixExpressions::Postfix>& load_forms;
  AffinePool& pool = nest.pool;
  const ComputeDag& dag = *nest.dag;
  const ExpressionTree& tree = nest.dag->expressions;
  std::vector<AffinePart> parts{};
  int64_t visited = 0;
  struct Combination {
    size_t stage = 0, output = 0;
    std::span<const KnownValue> axes{};
  } combination{};
};

}  // namespace foretime::data
