#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "data/frontends/ansor/features/store_value.h"

namespace foretime::data {

/// The value of an expression: what of it is known without running the loops.
struct Known {
  enum class Type : uint8_t { integer, real, truth } type = Type::real;
  bool constant = false;  // of real and truth: `number` is the value
  bool opaque = false;    // integer: of loaded data; `affine` says nothing
  double number = 0.0;
  Affine affine{};  // integer
  Affine taken{};   // integer: IndexInterval::taken

  static Known of(const Affine& affine) { return {Type::integer, affine.constant(), false, 0.0, affine, {}}; }
  static Known real() { return {}; }
  static Known real(double number) { return {Type::real, true, false, number, {}, {}}; }
  static Known truth() { return {Type::truth, false, false, 0.0, {}, {}}; }
  static Known truth(bool value) { return {Type::truth, true, false, value ? 1.0 : 0.0, {}, {}}; }
};

/// Walks the expression of one store: counts what stays of it and collects its loads.
struct StoreWalk {
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

  Known body(size_t stage, std::span<const Known> axes);
  void add_load(size_t stage, std::span<const Known> indices);
  void count_integer(const Known& value);
  void look();
  Known of(int32_t id, std::span<const Known> axes);
  Known load(int32_t id, std::span<const Known> axes);
  Known choice(int32_t id, std::span<const Known> axes, bool lazy);
  Known call(int32_t id, std::span<const Known> axes);
  Known cast(int32_t id, std::span<const Known> axes);
  /// Whether an expression is arithmetic of integers with a choice in it.
  bool chooses(int32_t id);
  bool is_integer(int32_t id);
  /// Choices among lengths, as adaptive pooling has them, are written as they come.
  Known choice_of_lengths(int32_t id, std::span<const Known> axes);
  Known integer_arithmetic(ExpressionKind kind, const Known& a, const Known& b);
  Affine affine_arithmetic(ExpressionKind kind, const Affine& a, const Affine& b);
  /// Numbers are folded, and what 0 and 1 do not change.
  Known real_arithmetic(ExpressionKind kind, const Known& a, const Known& b);
  /// a < b, or a ≤ b.
  Known less(const Known& a, const Known& b, bool or_equal);
  Known equal(const Known& a, const Known& b, bool negated);
  Known logical(const ExpressionTree::Node& node, int32_t id, std::span<const Known> axes);
  /// Counts what is left of `difference` < 0, which is not decided: TVM brings numbers to one side, divides by common
  /// factors, and takes divisions apart.
  void count_less(Affine difference, const Affine& taken);
  /// Counts a comparison's side without its number: the terms, with the sign that gives one of them a plus.
  void count_terms(const Affine& sum, const Affine& taken);
};

}  // namespace foretime::data
