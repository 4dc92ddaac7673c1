#include "data/frontends/ansor/features/store_value.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string>

#include "base/error.h"
#include "data/frontends/ansor/dag/expression.h"
#include "data/frontends/ansor/replay/index_interval.h"

namespace foretime::data {
namespace {

using Kind = ExpressionKind;

constexpr int64_t kMostOperations = 100000;

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

bool is_real(std::string_view type) { return type.starts_with("float") || type.starts_with("bfloat"); }

/// Whether a stage is what topi makes of a constant matrix: a chain of choices among numbers.
bool is_constant_matrix(const ComputeDag& dag, size_t stage) {
  const DagStage& defined = dag.stages[stage];
  if (!defined.reads.empty() || defined.bodies.size() != 1) return false;
  int32_t node = defined.bodies.front();
  if (dag.expressions.node(node).kind != Kind::select) return false;
  while (dag.expressions.node(node).kind == Kind::select) {
    if (dag.expressions.node(dag.expressions.child(node, 1)).kind != Kind::real) return false;
    node = dag.expressions.child(node, 2);
  }
  return dag.expressions.node(node).kind == Kind::real;
}

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
  struct Combination {
    size_t stage = 0, output = 0;
    std::span<const Known> axes{};
  } combination{};

  Known body(size_t stage, size_t output, std::span<const Known> axes) {
    const DagStage& defined = dag.stages[stage];
    if (output >= defined.bodies.size())
      throw DataError("stage {} ({}): '{}' is not an expression that is known", stage, defined.name,
                      defined.body_text.substr(0, 60));
    return of(defined.bodies[output], axes);
  }
  /// What becomes of tensor `output` of a tuple, which reads what the others are so far.
  Known combined(size_t stage, size_t output, std::span<const Known> axes) {
    combination = {stage, output, axes};
    return of(dag.stages[stage].combine[output], {});
  }
  Known operand(size_t number) {
    const auto [stage, output, axes] = combination;
    const DagStage& defined = dag.stages[stage];
    if (number >= defined.outputs()) return body(stage, number - defined.outputs(), axes);
    const auto indices = axes.first(defined.axes.size());
    if (number != output) add_load(dag.memory(stage, number), indices);
    const size_t first = number == output ? 0 : load_forms.size() - indices.size();
    for (size_t i = 0; i < indices.size(); ++i) forms.count(load_forms[first + i], count.integer);
    return loaded(defined.types[number]);
  }
  static Known loaded(const std::string& type) {
    if (is_real(type)) return Known::real();
    Known value = Known::of(Affine::of(0));
    value.constant = false;
    value.opaque = true;
    return value;
  }
  void add_load(size_t memory, std::span<const Known> indices) {
    loads.push_back({static_cast<int32_t>(memory), static_cast<uint32_t>(load_forms.size())});
    for (const Known& index : indices) {
      const bool affine = index.type == Known::Type::integer && !index.opaque;
      load_forms.push_back(affine ? forms.write(index.affine, index.taken) : forms.unknown());
    }
  }
  void count_integer(const Known& value) {
    if (value.type == Known::Type::integer && !value.opaque)
      forms.count(forms.write(value.affine, value.taken), count.integer);
  }
  void look() {
    if (++visited > kMostOperations) throw DataError("a store of more than {} operations", kMostOperations);
  }
  Known of(int32_t id, std::span<const Known> axes) {
    look();
    const auto& node = tree.node(id);
    switch (node.kind) {
      case Kind::integer:
        return Known::of(Affine::of(checked(node.value)));
      case Kind::real:
        return Known::real(std::strtod(tree.name(id).c_str(), nullptr));
      case Kind::variable:
        if (axes.empty() && !combination.axes.empty()) return operand(static_cast<size_t>(node.target));
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
    const auto is = [&](Kind kind, Kind other) { return node.kind == kind || node.kind == other; };
    if (is(Kind::equal, Kind::not_equal)) return equal(a, b, node.kind == Kind::not_equal);
    if (is(Kind::less, Kind::less_equal)) return less(a, b, node.kind == Kind::less_equal);
    if (is(Kind::greater, Kind::greater_equal)) return less(b, a, node.kind == Kind::greater_equal);
    const bool integer = a.type == Known::Type::integer && b.type == Known::Type::integer;
    return integer ? known_arithmetic(node.kind, a, b) : real_arithmetic(node.kind, a, b);
  }
  Known load(int32_t id, std::span<const Known> axes) {
    const auto stage = static_cast<size_t>(tree.node(id).target);
    if (stage >= dag.stages.size() || tree.children(id).size() != dag.stages[stage].shape.size())
      throw DataError("'{}': expected one index for each dimension", to_text(tree, id).substr(0, 80));
    std::vector<Known> indices;
    const size_t place = loads.size();
    for (const int32_t child : tree.children(id)) indices.push_back(of(child, axes));
    if (nest.stages[stage].compute_at == ComputeAt::inlined && !dag.stages[stage].input) {
      if (is_constant_matrix(dag, stage)) return Known::real(1.0);
      return body(stage, tree.output(id), indices);
    }
    const size_t first = load_forms.size();
    add_load(dag.memory(stage, tree.output(id)), indices);
    // Loads inside of indices come after the load that they belong to.
    std::rotate(loads.begin() + static_cast<std::ptrdiff_t>(place), loads.end() - 1, loads.end());
    for (size_t i = 0; i < indices.size(); ++i) forms.count(load_forms[first + i], count.integer);
    return loaded(dag.stages[stage].types[tree.output(id)]);
  }
  Known choice(int32_t id, std::span<const Known> axes, bool lazy) {
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
  Known call(int32_t id, std::span<const Known> axes) {
    const std::string& name = tree.name(id);
    const auto arguments = tree.children(id);
    if (name == "tir.if_then_else" || name == "if_then_else") {
      if (arguments.size() != 3) throw DataError("{}: {} arguments, expected 3", name, arguments.size());
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
  Known cast(int32_t id, std::span<const Known> axes) {
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
  /// Whether an expression is arithmetic of integers with a choice in it.
  bool chooses(int32_t id) {
    look();
    bool found = tree.node(id).kind == Kind::select;
    for (const int32_t child : tree.children(id)) found |= chooses(child);
    return found;
  }
  bool is_integer(int32_t id) {
    look();
    const Kind kind = tree.node(id).kind;
    if (kind == Kind::real || kind == Kind::load || kind == Kind::call || kind == Kind::text) return false;
    const auto children = tree.children(id);
    return std::ranges::all_of(children, [&](int32_t child) { return is_integer(child); });
  }
  /// Choices among lengths, as adaptive pooling has them, are written as they come.
  Known choice_of_lengths(int32_t id, std::span<const Known> axes) {
    std::vector<Affine> values;
    for (const Known& axis : axes) values.push_back(axis.affine);
    pool.keep_divisors(true);
    const Affine value = index_value(tree, id, values, pool);
    pool.keep_divisors(false);
    return Known::of(value);
  }
  Known known_arithmetic(Kind kind, const Known& a, const Known& b) {
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
    Known made = Known::of(integer_arithmetic(kind, a.affine, b.affine, pool));
    if (kind == Kind::add) made.taken = pool.add(a.taken, b.taken);
    if (kind == Kind::subtract) made.taken = pool.subtract(a.taken, b.taken);
    if (kind == Kind::multiply && b.constant) made.taken = pool.scale(a.taken, b.affine.base);
    if (kind == Kind::multiply && a.constant) made.taken = pool.scale(b.taken, a.affine.base);
    return made;
  }
  /// Numbers are folded, and what 0 and 1 do not change.
  Known real_arithmetic(Kind kind, const Known& a, const Known& b) {
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
        if (both)
          return Known::real(kind == Kind::minimum ? std::min(a.number, b.number) : std::max(a.number, b.number));
        ++count.float_compare;
        return Known::real();
      default:
        ++count.float_divide_modulo;
        return Known::real();
    }
  }
  /// a < b, or a ≤ b.
  Known less(const Known& a, const Known& b, bool or_equal) {
    if (a.type != Known::Type::integer || b.type != Known::Type::integer) {
      ++count.float_compare;
      return Known::truth();
    }
    if (a.opaque || b.opaque) {
      count_integer(a);
      count_integer(b);
      ++count.integer.compare;
      return Known::truth();
    }
    const Affine difference = pool.add(pool.subtract(a.affine, b.affine), or_equal ? -1 : 0);
    const AffineBounds bounds = pool.bounds(difference);
    if (bounds.high < 0 || bounds.low >= 0) return Known::truth(bounds.high < 0);
    count_less(difference, pool.subtract(a.taken, b.taken));
    return Known::truth();
  }
  Known equal(const Known& a, const Known& b, bool negated) {
    if (a.type != Known::Type::integer || b.type != Known::Type::integer || a.opaque || b.opaque) {
      count_integer(a);
      count_integer(b);
      ++(a.type == Known::Type::integer ? count.integer.compare : count.float_compare);
      return Known::truth();
    }
    const Affine difference = pool.subtract(a.affine, b.affine);
    const AffineBounds bounds = pool.bounds(difference);
    if (bounds.low == 0 && bounds.high == 0) return Known::truth(!negated);
    if (bounds.low > 0 || bounds.high < 0) return Known::truth(negated);
    ++count.integer.compare;
    count_terms(difference, pool.subtract(a.taken, b.taken));
    return Known::truth();
  }
  Known logical(const ExpressionTree::Node& node, int32_t id, std::span<const Known> axes) {
    const StoreOperations before = count;
    const size_t loaded = loads.size();
    const bool conjunction = node.kind == Kind::logical_and;
    const Known a = of(tree.child(id, 0), axes);
    if (a.constant && (a.number != 0.0) != conjunction) return Known::truth(!conjunction);
    const Known b = of(tree.child(id, 1), axes);
    if (b.constant && (b.number != 0.0) != conjunction) {
      count = before;
      loads.resize(loaded);
      return Known::truth(!conjunction);
    }
    if (a.constant || b.constant) return a.constant ? b : a;
    ++count.integer.logic;
    return Known::truth();
  }
  /// Counts what is left of `difference` < 0, which is not decided: TVM brings numbers to one side, divides by common
  /// factors, and takes divisions apart.
  void count_less(Affine difference, const Affine& taken) {
    ++count.integer.compare;
    for (int turn = 0; turn < 8 && taken.constant(); ++turn) {
      parts.clear();
      const int64_t base = pool.parts(difference, parts);
      for (auto& part : parts) pool.merge_divisions(part);
      if (parts.size() == 1) {
        const AffinePart part = parts[0];
        // scale·p + base < 0: p ≤ most, or p ≥ least.
        const int64_t scale = std::abs(part.coefficient);
        const bool above = part.coefficient < 0;
        const int64_t limit = above ? floor_quotient(base, scale) + 1 : -floor_quotient(base, scale);
        Affine value = part.of;
        if (part.modulus > 0)
          value = pool.floor_modulo(value, Affine::of(checked_multiply(part.divisor, part.modulus)));
        // limit ≤ v // d, or v // d < limit
        const int64_t bound = checked_multiply(limit, part.divisor);
        difference = above ? pool.add(pool.scale(value, -1), checked_add(bound, -1)) : pool.add(value, -bound);
        if (part.divisor == 1 && scale == 1) break;
        continue;
      }
      int64_t common = std::abs(base);
      bool scaled = false;
      for (const auto& part : parts) {
        if (std::abs(part.coefficient) == 1) continue;
        scaled = true;
        common = std::gcd(common, part.coefficient);
      }
      if (!scaled || common <= 1) break;
      Affine divisible = Affine::of(base / common), extra = Affine::of(0);
      for (const auto& part : parts) {
        Affine value = pool.floor_divide(part.of, part.divisor);
        if (part.modulus > 0) value = pool.floor_modulo(value, Affine::of(part.modulus));
        if (part.coefficient % common == 0) {
          divisible = pool.add(divisible, pool.scale(value, part.coefficient / common));
        } else {
          extra = pool.add(extra, pool.scale(value, part.coefficient));
        }
      }
      const AffineBounds within = pool.bounds(extra);
      if (within.low <= -common || within.high >= common) break;
      difference = divisible;
    }
    count_terms(difference, taken);
  }
  /// Counts a comparison's side without its number: the terms, with the sign that gives one of them a plus.
  void count_terms(const Affine& sum, const Affine& taken) {
    parts.clear();
    pool.parts(sum, parts);
    const bool negative = std::ranges::all_of(parts, [](const AffinePart& part) { return part.coefficient < 0; });
    const Affine side = pool.add(sum, -sum.base);
    forms.count(forms.write(negative ? pool.scale(side, -1) : side, pool.scale(taken, negative ? -1 : 1)),
                count.integer);
  }
};

}  // namespace

void StoreValues::find(LoopNest& nest, const NestStatements& statements, const NestNode& store, StoreValue& value) {
  const auto stage = static_cast<size_t>(store.stage), output = static_cast<size_t>(store.output);
  const DagStage& defined = nest.dag->stages[stage];
  const bool tuple = store.update && !defined.combine.empty();
  value.operations = {};
  value.buffers.clear();
  value.forms.clear();
  loads_.clear();
  load_forms_.clear();
  StoreWalk walk{.nest = nest, .forms = *forms_, .count = value.operations, .loads = loads_, .load_forms = load_forms_};
  std::vector<Known> axes;
  for (size_t i = 0; i < defined.axis_count(); ++i) {
    axes.push_back(Known::of(statements.axis_values[store.axes + i]));
    axes.back().taken = nest.variables[static_cast<size_t>(nest.stages[stage].axes[i])].taken;
  }
  walk.add_load(nest.dag->memory(stage, output), std::span(axes).first(defined.axes.size()));
  if (!store.initial) {
    if (store.update && !tuple) {
      for (size_t i = 0; i < defined.axes.size(); ++i) forms_->count(load_forms_[i], value.operations.integer);
    }
    const bool symbolic =
        std::ranges::any_of(defined.reduce_axes, [](const DagAxis& axis) { return axis.symbolic >= 0; });
    nest.pool.keep_divisors(symbolic);
    const Known result = tuple ? walk.combined(stage, output, axes) : walk.body(stage, output, axes);
    nest.pool.keep_divisors(false);
    walk.count_integer(result);
    if (store.update && !tuple) {
      const bool integer = result.type == Known::Type::integer;
      if (defined.combiner == "sum") {
        ++(integer ? value.operations.integer.add_subtract : value.operations.float_add_subtract);
      } else if (defined.combiner == "max" || defined.combiner == "min") {
        ++(integer ? value.operations.integer.compare : value.operations.float_compare);
      } else {
        throw DataError("stage {} ({}): combiner {}, expected sum, max or min", stage, defined.name, defined.combiner);
      }
    }
  }
  // Accesses of one memory stand together; what is read and written is an update, whose indices are the same.
  for (size_t i = 0; i < loads_.size(); ++i) {
    const StoreLoad& load = loads_[i];
    const bool known =
        std::ranges::any_of(value.buffers, [&](const BufferAccess& buffer) { return buffer.memory == load.memory; });
    if (known) continue;
    BufferAccess buffer{.memory = load.memory, .read = i > 0 || store.update, .written = i == 0};
    buffer.rank =
        static_cast<uint32_t>(nest.dag->stages[nest.dag->stage_of(static_cast<size_t>(load.memory))].shape.size());
    buffer.first = static_cast<uint32_t>(value.forms.size());
    for (size_t j = i; j < loads_.size(); ++j) {
      if (loads_[j].memory != load.memory) continue;
      if (buffer.written && j > i) {
        buffer.read = true;
        continue;
      }
      const auto begin = load_forms_.begin() + static_cast<std::ptrdiff_t>(loads_[j].first);
      value.forms.insert(value.forms.end(), begin, begin + buffer.rank);
      ++buffer.count;
    }
    value.buffers.push_back(buffer);
  }
}

}  // namespace foretime::data
