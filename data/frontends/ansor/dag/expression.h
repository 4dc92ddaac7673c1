#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

/// Calculates with integers from files: a result beyond ±2^62 is invalid input.
namespace foretime::data {

/// Returns `value` if it is within ±2^62, so that it can also be negated; otherwise throws DataError.
inline int64_t checked(__int128 value) {
  constexpr __int128 kMost = __int128{1} << 62;
  if (value > kMost || value < -kMost) throw DataError("a bound is beyond 2^62");
  return static_cast<int64_t>(value);
}
inline int64_t checked_add(int64_t a, int64_t b) { return checked(static_cast<__int128>(a) + b); }
inline int64_t checked_subtract(int64_t a, int64_t b) { return checked(static_cast<__int128>(a) - b); }
inline int64_t checked_multiply(int64_t a, int64_t b) { return checked(static_cast<__int128>(a) * b); }

/// Returns a / divisor rounded towards minus infinity; the divisor is above 0.
inline int64_t floor_quotient(int64_t a, int64_t divisor) { return a / divisor - (a % divisor < 0 ? 1 : 0); }

/// Returns a − divisor × floor_quotient(a, divisor), which is 0 … divisor − 1; the divisor is above 0.
inline int64_t floor_remainder(int64_t a, int64_t divisor) {
  const int64_t rest = a % divisor;
  return rest < 0 ? rest + divisor : rest;
}

/// Lists the kinds of nodes of an expression.
enum class ExpressionKind : uint8_t {
  integer,
  real,
  variable,
  add,
  subtract,
  multiply,
  divide,  // truncates integers
  modulo,  // remainder of the truncating division
  floor_divide,
  floor_modulo,
  minimum,
  maximum,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  logical_and,
  logical_or,
  logical_not,
  select,  // condition, value, value
  cast,    // converts to the type `name`
  load,    // one element of the tensor `name`; the children are its indices
  call,    // calls the function `name`
  text,    // a quoted string
};

/// Returns whether the kind is a comparison or logical operation, whose values are true and false.
inline bool is_condition(ExpressionKind kind) {
  return kind >= ExpressionKind::equal && kind <= ExpressionKind::logical_not;
}

/// Holds expressions as trees in one pool. An expression is given by the number of its root node; children have smaller
/// numbers than their parent. Expressions of a stage's body or index are not simplified.
class ExpressionTree {
 public:
  struct Node {
    ExpressionKind kind = ExpressionKind::integer;
    uint32_t first_child = 0, children = 0;  // range of the children in children_
    int32_t name = -1;  // index into names_ for a variable, load, call, cast, real (its literal) and text
    int32_t target =
        -1;  // variable: position among the axes of its stage, spatial ones first; load: stage; −1: unresolved
    int32_t depth = 1;  // levels of the tree below this node, this node included
    int64_t value = 0;  // integer: its value; load: 0, or 1 + index of the tensor if its stage has several
  };

  const Node& node(int32_t id) const { return nodes_[id]; }
  Node& node(int32_t id) { return nodes_[id]; }
  /// Returns the index of the tensor that a load reads, among the tensors of its stage.
  size_t output(int32_t id) const { return std::max<int64_t>(node(id).value - 1, 0); }
  std::span<const int32_t> children(int32_t id) const;
  int32_t child(int32_t id, size_t index) const { return children(id)[index]; }
  const std::string& name(int32_t id) const { return names_[node(id).name]; }  // only for kinds with a name
  size_t size() const { return nodes_.size(); }

  int32_t add_integer(int64_t value);  // adds an integer and returns its number
  /// Adds a node with the given children and returns its number; `name` is empty for kinds without a name.
  int32_t add(ExpressionKind kind, std::string_view name, std::span<const int32_t> children);

 private:
  std::vector<Node> nodes_;
  std::vector<int32_t> children_;
  std::vector<std::string> names_;
};

/// Parses an expression printed by TVM (`((yy*4) + ry)`, `floordiv(p, 16)`, `max(a[i, j], 0f)`), adds it to `tree` and
/// returns the number of its root. Names are not resolved: targets are −1. Throws DataError with the position in `text`
/// and the expected token, also for parentheses nested deeper than 400 and chains of more than 800 operators.
int32_t parse_expression(std::string_view text, ExpressionTree& tree);

/// Returns an expression as TVM prints it, the inverse of parse_expression. A variable with target t is printed as
/// axis_names[t] and a load with target s as stage_names[s], if these exist; otherwise under their own names.
std::string to_text(const ExpressionTree& tree, int32_t root, std::span<const std::string> axis_names = {},
                    std::span<const std::string> stage_names = {});

}  // namespace foretime::data
