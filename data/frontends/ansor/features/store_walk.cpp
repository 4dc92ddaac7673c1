#include "data/frontends/ansor/features/store_walk.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include <fmt/format.h>

#include "base/error.h"
#include "data/frontends/ansor/dag/checked.h"
#include "data/frontends/ansor/replay/index_interval.h"

namespace foretime::data {
namespace {

using Kind = ExpressionKind;

constexpr int64_t kMostOperations = 100000;

bool is_real(std::string_view type) { return type.starts_with("float") || type.starts_with("bfloat"); }

/// Whether a stage is what topi makes of a constant matrix: a chain of choices among numbers.
bool is_constant_matrix(const ComputeDag& dag, size_t stage) {
  const DagStage& defined = dag.stages[stage];
  if (!defined.reads.empty() || defined.body < 0) return false;
  int32_t node = defined.body;
  if (dag.expressions.node(node).kind != Kind::select) return false;
  while (dag.expressions.node(node).kind == Kind::select) {
    if (dag.expressions.node(dag.expressions.child(node, 1)).kind != Kind::real) return false;
    node = dag.expressions.child(node, 2);
  }
  return dag.expressions.node(node).kind == Kind::real;
}

}  // namespace

void StoreWalk::look() {
  if (++visited > kMostOperations) throw DataError(fmt::format("a store of more than {} operations", kMostOperations));
}

Known StoreWalk::of(int32_t id, std::span<const Known> axes) {
  if (++visited > kMostOperations) throw DataError(fmt::format("a store of more than {} operations", kMostOperations));
  const auto& node = tree.node(id);
  switch (node.kind) {
    case Kind::integer:
      return Known::of(Affine::of(checked(node.value)));
    case Kind::real:
      return Known::real(std::strtod(tree.name(id).c_str(), nullptr));
    case Kind::variable:
      if (static_cast<size_t>(node.target) >= axes.size()) throw DataError("a variable that is no axis");
      return axes[static_cast<size_t>(node.target)];
    case Kind::load:
      return load(id, axes);
    case Kind::cast:
      return cast(id, axes);
    case Kind::call:
      return call(id, axes);
    case Kind::select:
      return choice(id, axes, false);
    case Kind::logical_and:
    case Kind::logical_or:
      return logical(node, id, axes);
    case Kind::logical_not: {
      const Known value = of(tree.child(id, 0), axes);
      if (value.constant) return Known::truth(value.number == 0.0);
      return value;  // of a comparison: the opposite one
    }
    case Kind::text:
      return Known::real();
    default:
      break;
  }
  const Known a = of(tree.child(id, 0), axes), b = of(tree.child(id, 1), axes);
  switch (node.kind) {
    case Kind::equal:
    case Kind::not_equal:
      return equal(a, b, node.kind == Kind::not_equal);
    case Kind::less:
    case Kind::less_equal:
      return less(a, b, node.kind == Kind::less_equal);
    case Kind::greater:
    case Kind::greater_equal:
      return less(b, a, node.kind == Kind::greater_equal);
    default:
      break;
  }
  const bool integer = a.type == Known::Type::integer && b.type == Known::Type::integer;
  return integer ? integer_arithmetic(node.kind, a, b) : real_arithmetic(node.kind, a, b);
}

Known StoreWalk::body(size_t stage, std::span<const Known> axes) {
  const DagStage& defined = dag.stages[stage];
  if (defined.body < 0)
    throw DataError(fmt::format("stage {} ({}): '{}' is not an expression that is known", stage, defined.name,
                                defined.body_text.substr(0, 60)));
  return of(defined.body, axes);
}

Known StoreWalk::load(int32_t id, std::span<const Known> axes) {
  const auto stage = static_cast<size_t>(tree.node(id).target);
  if (stage >= dag.stages.size() || tree.children(id).size() != dag.stages[stage].shape.size())
    throw DataError(fmt::format("'{}': expected one index for each dimension", to_text(tree, id).substr(0, 80)));
  std::vector<Known> indices;
  const size_t place = loads.size();
  for (const int32_t child : tree.children(id)) indices.push_back(of(child, axes));
  if (nest.stages[stage].compute_at == ComputeAt::inlined && !dag.stages[stage].input) {
    if (is_constant_matrix(dag, stage)) return Known::real(1.0);
    return body(stage, indices);
  }
  const size_t first = load_forms.size();
  add_load(stage, indices);
  // Loads inside of indices come after the load that they belong to.
  std::rotate(loads.begin() + static_cast<std::ptrdiff_t>(place), loads.end() - 1, loads.end());
  for (size_t i = 0; i < indices.size(); ++i) forms.count(load_forms[first + i], count.integer);
  if (is_real(dag.stages[stage].type)) return Known::real();
  Known loaded = Known::of(Affine::of(0));
  loaded.constant = false;
  loaded.opaque = true;
  return loaded;
}

void StoreWalk::add_load(size_t stage, std::span<const Known> indices) {
  loads.push_back({static_cast<int32_t>(stage), static_cast<uint32_t>(load_forms.size())});
  for (const Known& index : indices) {
    const bool affine = index.type == Known::Type::integer && !index.opaque;
    load_forms.push_back(affine ? forms.write(index.affine, index.taken) : forms.unknown());
  }
}

void StoreWalk::count_integer(const Known& value) {
  if (value.type == Known::Type::integer && !value.opaque)
    forms.count(forms.write(value.affine, value.taken), count.integer);
}

Known StoreWalk::choice(int32_t id, std::span<const Known> axes, bool lazy) {
  const Known condition = of(tree.child(id, 0), axes);
  if (condition.constant) return of(tree.child(id, condition.number != 0.0 ? 1 : 2), axes);
  const Known a = of(tree.child(id, 1), axes), b = of(tree.child(id, 2), axes);
  count_integer(a);
  count_integer(b);
  const bool integer = a.type == Known::Type::integer;
  if (!lazy) {
    ++count.integer.select;
  } else {
    ++(integer ? count.integer_math : count.float_math);
  }
  if (!integer) return a.type == Known::Type::truth ? Known::truth() : Known::real();
  Known chosen = a;
  chosen.constant = false;
  chosen.opaque = true;
  return chosen;
}

Known StoreWalk::call(int32_t id, std::span<const Known> axes) {
  const std::string& name = tree.name(id);
  const auto arguments = tree.children(id);
  if (name == "tir.if_then_else" || name == "if_then_else") {
    if (arguments.size() != 3) throw DataError(fmt::format("{}: {} arguments, expected 3", name, arguments.size()));
    return choice(id, axes, true);
  }
  Known first = Known::real();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Known argument = of(arguments[i], axes);
    count_integer(argument);
    if (i == 0) first = argument;
  }
  if (name == "tir.likely" || name == "likely") return first;
  if (first.type == Known::Type::real) {
    ++count.float_math;
    return Known::real();
  }
  ++count.integer_math;
  first.constant = false;
  first.opaque = true;
  return first;
}

Known StoreWalk::cast(int32_t id, std::span<const Known> axes) {
  const int32_t child = tree.child(id, 0);
  if (is_real(tree.name(id)) && chooses(child) && is_integer(child)) {
    const Known length = choice_of_lengths(child, axes);
    if (length.constant) return Known::real(static_cast<double>(length.affine.base));
    count_integer(length);
    return Known::real();
  }
  const Known value = of(tree.child(id, 0), axes);
  const std::string& type = tree.name(id);
  if (type == "bool") {
    if (value.constant)
      return Known::truth(value.type == Known::Type::integer ? value.affine.base != 0 : value.number != 0.0);
    count_integer(value);
    return Known::truth();
  }
  if (!is_real(type)) {
    if (value.type == Known::Type::integer) return value;
    Known made = Known::of(Affine::of(0));
    made.constant = false;
    made.opaque = true;
    return made;
  }
  if (value.type != Known::Type::integer) return value;
  if (value.constant) return Known::real(static_cast<double>(value.affine.base));
  count_integer(value);
  return Known::real();
}

bool StoreWalk::chooses(int32_t id) {
  look();
  bool found = tree.node(id).kind == Kind::select;
  for (const int32_t child : tree.children(id)) found |= chooses(child);
  return found;
}

bool StoreWalk::is_integer(int32_t id) {
  look();
  const Kind kind = tree.node(id).kind;
  if (kind == Kind::real || kind == Kind::load || kind == Kind::call || kind == Kind::text) return false;
  const auto children = tree.children(id);
  return std::all_of(children.begin(), children.end(), [&](int32_t child) { return is_integer(child); });
}

Known StoreWalk::choice_of_lengths(int32_t id, std::span<const Known> axes) {
  std::vector<Affine> values;
  for (const Known& axis : axes) values.push_back(axis.affine);
  pool.keep_divisors(true);
  const Affine value = index_value(tree, id, values, pool);
  pool.keep_divisors(false);
  return Known::of(value);
}

Known StoreWalk::integer_arithmetic(Kind kind, const Known& a, const Known& b) {
  if (a.opaque || b.opaque) {
    count_integer(a);
    count_integer(b);
    IntegerOperations& counts = count.integer;
    const bool sums = kind == Kind::add || kind == Kind::subtract,
               compares = kind == Kind::minimum || kind == Kind::maximum;
    ++(sums                     ? counts.add_subtract
       : compares               ? counts.compare
       : kind == Kind::multiply ? counts.multiply
                                : counts.divide_modulo);
    Known made = a;
    made.constant = false;
    made.opaque = true;
    return made;
  }
  Known made = Known::of(affine_arithmetic(kind, a.affine, b.affine));
  if (kind == Kind::add) made.taken = pool.add(a.taken, b.taken);
  if (kind == Kind::subtract) made.taken = pool.subtract(a.taken, b.taken);
  if (kind == Kind::multiply && b.constant) made.taken = pool.scale(a.taken, b.affine.base);
  if (kind == Kind::multiply && a.constant) made.taken = pool.scale(b.taken, a.affine.base);
  return made;
}

Affine StoreWalk::affine_arithmetic(Kind kind, const Affine& a, const Affine& b) {
  switch (kind) {
    case Kind::add:
      return pool.add(a, b);
    case Kind::subtract:
      return pool.subtract(a, b);
    case Kind::multiply:
      return pool.multiply(a, b);
    case Kind::divide:
      return pool.divide(a, b);
    case Kind::modulo:
      return pool.modulo(a, b);
    case Kind::floor_divide:
      return pool.floor_divide(a, b);
    case Kind::floor_modulo:
      return pool.floor_modulo(a, b);
    case Kind::minimum:
      return pool.minimum(a, b);
    default:
      return pool.maximum(a, b);
  }
}

Known StoreWalk::real_arithmetic(Kind kind, const Known& a, const Known& b) {
  const auto is = [](const Known& value, double number) { return value.constant && value.number == number; };
  const bool both = a.constant && b.constant;
  switch (kind) {
    case Kind::add:
      if (both) return Known::real(a.number + b.number);
      if (is(a, 0.0)) return b;
      if (is(b, 0.0)) return a;
      ++count.float_add_subtract;
      return Known::real();
    case Kind::subtract:
      if (both) return Known::real(a.number - b.number);
      if (is(b, 0.0)) return a;
      ++count.float_add_subtract;
      return Known::real();
    case Kind::multiply:
      if (both) return Known::real(a.number * b.number);
      if (is(a, 1.0)) return b;
      if (is(b, 1.0)) return a;
      ++count.float_multiply;
      return Known::real();
    case Kind::divide:
    case Kind::floor_divide:
      if (both && b.number != 0.0) return Known::real(a.number / b.number);
      if (is(b, 1.0)) return a;
      // x / c is written x · (1 / c).
      ++(b.constant ? count.float_multiply : count.float_divide_modulo);
      return Known::real();
    case Kind::minimum:
    case Kind::maximum:
      if (both) return Known::real(kind == Kind::minimum ? std::min(a.number, b.number) : std::max(a.number, b.number));
      ++count.float_compare;
      return Known::real();
    default:
      ++count.float_divide_modulo;
      return Known::real();
  }
}

}  // namespace foretime::data
