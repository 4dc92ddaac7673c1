#include "models/baselines/store_features/store_walk.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/numbers.h"
#include "data/frontends/ansor/replay/index_interval.h"

namespace foretime::models {
namespace {

using Kind = data::ExpressionKind;

constexpr int64_t kMostOperations = 100000;

bool is_real(std::string_view type) { return type.starts_with("float") || type.starts_with("bfloat"); }

/// Returns a value of which only the type is known.
KnownValue opaque(KnownValue value) {
  value.constant = false;
  value.opaque = true;
  return value;
}

/// Returns whether a stage is topi's form of a constant matrix: a chain of choices among numbers.
bool is_constant_matrix(const data::ComputeDag& dag, size_t stage) {
  const data::DagStage& defined = dag.stages[stage];
  if (!defined.reads.empty() || defined.bodies.size() != 1) return false;
  int32_t node = defined.bodies.front();
  if (dag.expressions.node(node).kind != Kind::select) return false;
  while (dag.expressions.node(node).kind == Kind::select) {
    if (dag.expressions.node(dag.expressions.child(node, 1)).kind != Kind::real) return false;
    node = dag.expressions.child(node, 2);
  }
  return dag.expressions.node(node).kind == Kind::real;
}

}  // namespace

KnownValue StoreWalk::body(size_t stage, size_t output, std::span<const KnownValue> axes) {
  const data::DagStage& defined = dag.stages[stage];
  if (output >= defined.bodies.size())
    throw DataError("stage {} ({}): '{}' is not an expression that is known", stage, defined.name,
                    defined.body_text.substr(0, 60));
  return of(defined.bodies[output], axes);
}

KnownValue StoreWalk::combined(size_t stage, size_t output, std::span<const KnownValue> axes) {
  combination = {stage, output, axes};
  return of(dag.stages[stage].combine[output], {});
}

KnownValue StoreWalk::operand(size_t number) {
  const auto [stage, output, axes] = combination;
  const data::DagStage& defined = dag.stages[stage];
  if (number >= defined.outputs()) return body(stage, number - defined.outputs(), axes);
  const auto indices = axes.first(defined.axes.size());
  if (number != output) add_load(dag.memory(stage, number), indices);
  const size_t first = number == output ? 0 : load_forms.size() - indices.size();
  for (size_t i = 0; i < indices.size(); ++i) forms.count(load_forms[first + i], count.integer);
  return loaded(defined.types[number]);
}

KnownValue StoreWalk::loaded(const std::string& type) {
  return is_real(type) ? KnownValue::real() : opaque(KnownValue::of(data::Affine::of(0)));
}

void StoreWalk::add_load(size_t memory, std::span<const KnownValue> indices) {
  loads.push_back({static_cast<int32_t>(memory), static_cast<uint32_t>(load_forms.size())});
  for (const KnownValue& index : indices) {
    const bool affine = index.type == KnownValue::Type::integer && !index.opaque;
    load_forms.push_back(affine ? forms.write(index.affine, index.subtracted) : forms.unknown());
  }
}

void StoreWalk::count_integer(const KnownValue& value) {
  if (value.type == KnownValue::Type::integer && !value.opaque)
    forms.count(forms.write(value.affine, value.subtracted), count.integer);
}

void StoreWalk::count_visit() {
  if (++visited > kMostOperations)
    throw DataError("the expression of a store has more than {} operations", kMostOperations);
}

KnownValue StoreWalk::of(int32_t id, std::span<const KnownValue> axes) {
  count_visit();
  const auto& node = tree.node(id);
  switch (node.kind) {
    case Kind::integer: return KnownValue::of(data::Affine::of(data::checked(node.value)));
    case Kind::real: {
      std::string_view literal = tree.name(id);  // 1.5f
      return KnownValue::real(take_number<double>(literal).value_or(0));
    }
    case Kind::variable:
      if (axes.empty() && !combination.axes.empty()) return operand(node.target);
      if (node.target < 0 || node.target >= std::ssize(axes))
        throw DataError("an expression reads a variable that is not an axis of its stage");
      return axes[node.target];
    case Kind::load: return load(id, axes);
    case Kind::cast: return cast(id, axes);
    case Kind::call: return call(id, axes);
    case Kind::select: return choice(id, axes, false);
    case Kind::logical_and:
    case Kind::logical_or: return logical(node, id, axes);
    case Kind::logical_not: {
      const KnownValue value = of(tree.child(id, 0), axes);
      if (value.constant) return KnownValue::truth(value.number == 0.0);
      return value;  // negated value of a comparison
    }
    case Kind::text: return KnownValue::real();
    default: break;
  }
  const KnownValue a = of(tree.child(id, 0), axes), b = of(tree.child(id, 1), axes);
  const auto is = [&](Kind kind, Kind other) { return node.kind == kind || node.kind == other; };
  if (is(Kind::equal, Kind::not_equal)) return equal(a, b, node.kind == Kind::not_equal);
  if (is(Kind::less, Kind::less_equal)) return less(a, b, node.kind == Kind::less_equal);
  if (is(Kind::greater, Kind::greater_equal)) return less(b, a, node.kind == Kind::greater_equal);
  const bool integer = a.type == KnownValue::Type::integer && b.type == KnownValue::Type::integer;
  return integer ? known_arithmetic(node.kind, a, b) : real_arithmetic(node.kind, a, b);
}

KnownValue StoreWalk::load(int32_t id, std::span<const KnownValue> axes) {
  const size_t stage = tree.node(id).target;
  if (stage >= dag.stages.size() || tree.children(id).size() != dag.stages[stage].shape.size())
    throw DataError("'{}': expected a known stage with one index for each of its dimensions",
                    data::to_text(tree, id).substr(0, 80));
  std::vector<KnownValue> indices;
  const size_t place = loads.size();
  for (const int32_t child : tree.children(id)) indices.push_back(of(child, axes));
  if (nest.stages[stage].compute_at == data::ComputeAt::inlined && !dag.stages[stage].input) {
    if (is_constant_matrix(dag, stage)) return KnownValue::real(1.0);
    return body(stage, tree.output(id), indices);
  }
  const size_t first = load_forms.size();
  add_load(dag.memory(stage, tree.output(id)), indices);
  // Loads inside of indices come after the load that they belong to.
  std::rotate(loads.begin() + place, loads.end() - 1, loads.end());
  for (size_t i = 0; i < indices.size(); ++i) forms.count(load_forms[first + i], count.integer);
  return loaded(dag.stages[stage].types[tree.output(id)]);
}

KnownValue StoreWalk::choice(int32_t id, std::span<const KnownValue> axes, bool lazy) {
  const KnownValue condition = of(tree.child(id, 0), axes);
  if (condition.constant) return of(tree.child(id, condition.number != 0.0 ? 1 : 2), axes);
  const KnownValue a = of(tree.child(id, 1), axes), b = of(tree.child(id, 2), axes);
  count_integer(a);
  count_integer(b);
  const bool integer = a.type == KnownValue::Type::integer;
  if (!lazy) ++count.integer.select;
  else ++(integer ? count.integer_math : count.float_math);
  if (!integer) return a.type == KnownValue::Type::truth ? KnownValue::truth() : KnownValue::real();
  return opaque(a);
}

KnownValue StoreWalk::call(int32_t id, std::span<const KnownValue> axes) {
  const std::string& name = tree.name(id);
  const auto arguments = tree.children(id);
  if (name == "tir.if_then_else" || name == "if_then_else") {
    if (arguments.size() != 3) throw DataError("{}: {} arguments, expected 3", name, arguments.size());
    return choice(id, axes, true);
  }
  KnownValue first = KnownValue::real();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const KnownValue argument = of(arguments[i], axes);
    count_integer(argument);
    if (i == 0) first = argument;
  }
  if (name == "tir.likely" || name == "likely") return first;
  if (first.type == KnownValue::Type::real) {
    ++count.float_math;
    return KnownValue::real();
  }
  ++count.integer_math;
  return opaque(first);
}

KnownValue StoreWalk::cast(int32_t id, std::span<const KnownValue> axes) {
  const int32_t child = tree.child(id, 0);
  if (is_real(tree.name(id)) && chooses(child) && is_integer(child)) {
    const KnownValue length = choice_of_lengths(child, axes);
    if (length.constant) return KnownValue::real(static_cast<double>(length.affine.base));
    count_integer(length);
    return KnownValue::real();
  }
  const KnownValue value = of(tree.child(id, 0), axes);
  const std::string& type = tree.name(id);
  if (type == "bool") {
    if (value.constant)
      return KnownValue::truth(value.type == KnownValue::Type::integer ? value.affine.base != 0 : value.number != 0.0);
    count_integer(value);
    return KnownValue::truth();
  }
  if (!is_real(type))
    return value.type == KnownValue::Type::integer ? value : opaque(KnownValue::of(data::Affine::of(0)));
  if (value.type != KnownValue::Type::integer) return value;
  if (value.constant) return KnownValue::real(static_cast<double>(value.affine.base));
  count_integer(value);
  return KnownValue::real();
}

bool StoreWalk::chooses(int32_t id) {
  count_visit();
  bool found = tree.node(id).kind == Kind::select;
  for (const int32_t child : tree.children(id)) found |= chooses(child);
  return found;
}

bool StoreWalk::is_integer(int32_t id) {
  count_visit();
  const Kind kind = tree.node(id).kind;
  if (kind == Kind::real || kind == Kind::load || kind == Kind::call || kind == Kind::text) return false;
  const auto children = tree.children(id);
  return std::ranges::all_of(children, [&](int32_t child) { return is_integer(child); });
}

KnownValue StoreWalk::choice_of_lengths(int32_t id, std::span<const KnownValue> axes) {
  std::vector<data::Affine> values;
  for (const KnownValue& axis : axes) values.push_back(axis.affine);
  pool.keep_divisors(true);
  const data::Affine value = data::index_value(tree, id, values, pool);
  pool.keep_divisors(false);
  return KnownValue::of(value);
}

KnownValue StoreWalk::known_arithmetic(Kind kind, const KnownValue& a, const KnownValue& b) {
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
    return opaque(a);
  }
  KnownValue made = KnownValue::of(data::integer_arithmetic(kind, a.affine, b.affine, pool));
  if (kind == Kind::add) made.subtracted = pool.add(a.subtracted, b.subtracted);
  if (kind == Kind::subtract) made.subtracted = pool.subtract(a.subtracted, b.subtracted);
  if (kind == Kind::multiply && b.constant) made.subtracted = pool.scale(a.subtracted, b.affine.base);
  if (kind == Kind::multiply && a.constant) made.subtracted = pool.scale(b.subtracted, a.affine.base);
  return made;
}

KnownValue StoreWalk::real_arithmetic(Kind kind, const KnownValue& a, const KnownValue& b) {
  const auto is = [](const KnownValue& value, double number) { return value.constant && value.number == number; };
  const bool both = a.constant && b.constant;
  switch (kind) {
    case Kind::add:
      if (both) return KnownValue::real(a.number + b.number);
      if (is(a, 0.0)) return b;
      if (is(b, 0.0)) return a;
      ++count.float_add_subtract;
      return KnownValue::real();
    case Kind::subtract:
      if (both) return KnownValue::real(a.number - b.number);
      if (is(b, 0.0)) return a;
      ++count.float_add_subtract;
      return KnownValue::real();
    case Kind::multiply:
      if (both) return KnownValue::real(a.number * b.number);
      if (is(a, 1.0)) return b;
      if (is(b, 1.0)) return a;
      ++count.float_multiply;
      return KnownValue::real();
    case Kind::divide:
    case Kind::floor_divide:
      if (both && b.number != 0.0) return KnownValue::real(a.number / b.number);
      if (is(b, 1.0)) return a;
      // x / c is written x · (1 / c).
      ++(b.constant ? count.float_multiply : count.float_divide_modulo);
      return KnownValue::real();
    case Kind::minimum:
    case Kind::maximum:
      if (both)
        return KnownValue::real(kind == Kind::minimum ? std::min(a.number, b.number) : std::max(a.number, b.number));
      ++count.float_compare;
      return KnownValue::real();
    default: ++count.float_divide_modulo; return KnownValue::real();
  }
}

}  // namespace foretime::models
