#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

/// Integer arithmetic on numbers that come from files: leaving 64 bits is bad
/// input.
namespace foretime::data {

/// Below ±2^62, so that a number can also be negated.
inline int64_t checked(__int128 value) {
  constexpr __int128 kMost = __int128{1} << 62;
  if (value > kMost || value < -kMost) throw DataError("a bound beyond 2^62");
  return static_cast<int64_t>(value);
}
inline int64_t checked_add(int64_t a, int64_t b) { return checked(static_cast<__int128>(a) + b); }
inline int64_t checked_subtract(int64_t a, int64_t b) { return checked(static_cast<__int128>(a) - b); }
inline int64_t checked_multiply(int64_t a, int64_t b) { return checked(static_cast<__int128>(a) * b); }

/// Towards minus infinity; the divisor is above 0.
inline int64_t floor_quotient(int64_t a, int64_t divisor) { return a / divisor - (a % divisor < 0 ? 1 : 0); }

/// In 0 to divisor − 1.
inline int64_t floor_remainder(int64_t a, int64_t divisor) {
  const int64_t rest = a % divisor;
  return rest < 0 ? rest + divisor : rest;
}

enum class ExpressionKind : uint8_t {
  integer,
  real,
  variable,
  add,
  subtract,
  multiply,
  divide,  // truncating on integers
  modulo,  // likewise
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
  cast,    // to the type that `name` names
  load,    // one element of the tensor `name`; the children are its indices
  call,    // of the function `name`
  text,    // a quoted string
};

/// Comparisons and logic, whose values are true and false.
inline bool is_condition(ExpressionKind kind) {
  return kind >= ExpressionKind::equal && kind <= ExpressionKind::logical_not;
}

/// Expressions as trees in one pool; a node is known by its number, and children have smaller numbers than their
/// parent. A tree is what the body or the index of a stage says, nothing is simplified in it.
class ExpressionTree {
 public:
  struct Node {
    ExpressionKind kind = ExpressionKind::integer;
    uint32_t first_child = 0, children = 0;
    int32_t name = -1;    // variable, load, call, cast, real (its literal), text: index into names
    int32_t target = -1;  // variable: position among the axes of its stage, spatial ones first; load: stage
    int32_t depth = 1;    // of the tree under it: bounds every recursion over trees
    int64_t value = 0;    // integer; load: 0, or 1 + the number of the tensor where its stage makes several
  };

  const Node& node(int32_t id) const { return nodes_[static_cast<size_t>(id)]; }
  Node& node(int32_t id) { return nodes_[static_cast<size_t>(id)]; }
  /// Of a load: which of the tensors of its stage it reads.
  size_t output(int32_t id) const { return static_cast<size_t>(std::max<int64_t>(node(id).value - 1, 0)); }
  std::span<const int32_t> children(int32_t id) const;
  int32_t child(int32_t id, size_t index) const { return children(id)[index]; }
  const std::string& name(int32_t id) const { return names_[static_cast<size_t>(node(id).name)]; }
  size_t size() const { return nodes_.size(); }

  int32_t add_integer(int64_t value);
  /// A node with a name (`name` is empty where its kind has none).
  int32_t add(ExpressionKind kind, std::string_view name, std::span<const int32_t> children);

 private:
  std::vector<Node> nodes_;
  std::vector<int32_t> children_;
  std::vector<std::string> names_;
};

/// Reads what TVM prints of an expression (`((yy*4) + ry)`, `floordiv(p, 16)`, `max(a[i, j], 0f)`) and adds it to
/// `tree`; names are not resolved. Throws DataError, which says where in `text` what was expected, also where
/// parentheses nest deeper than 400.
int32_t parse_expression(std::string_view text, ExpressionTree& tree);

/// The inverse of parse_expression, as TVM prints it. A variable whose target is t is printed as axis_names[t] if
/// there is such a name, a load whose target is s as stage_names[s].
std::string to_text(const ExpressionTree& tree, int32_t root, std::span<const std::string> axis_names = {},
                    std::span<const std::string> stage_names = {});

}  // namespace foretime::data
