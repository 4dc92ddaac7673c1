#include "data/frontends/ansor/replay/nest_statements.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "data/frontends/ansor/replay/index_interval.h"

namespace foretime::data {
namespace {

constexpr size_t kMostAccesses = 100000;

class Accesses {
 public:
  Accesses(LoopNest& nest, std::vector<NestAccess>& out) : nest_(nest), out_(out) {}

  /// `axes` are the values of the axes of `reader`, `output` which of its bodies reads.
  void read(size_t reader, size_t output, const std::vector<IndexInterval>& axes) {
    const ComputeDag& dag = *nest_.dag;
    for (const DagRead& read : dag.stages[reader].reads) {
      if (std::cmp_not_equal(read.body, output)) continue;
      if (++looked_at_ > kMostAccesses) throw DataError("a stage of more than {} accesses", kMostAccesses);
      std::vector<IndexInterval> indices;
      for (const int32_t index : read.indices) {
        // Interval arithmetic on points is exact; what comes out wider is no arithmetic of integers.
        IndexInterval value = index_interval(dag.expressions, index, axes, nest_.pool);
        if (!value.everything && !nest_.pool.same(value.low, value.high)) value.everything = true;
        indices.push_back(value);
      }
      const size_t source = read.stage;
      if (nest_.stages[source].compute_at == ComputeAt::inlined) {
        this->read(source, read.output, indices);
        continue;
      }
      NestAccess access;
      access.memory = dag.memory(source, read.output);
      for (const IndexInterval& index : indices) {
        access.indices.push_back(index.everything ? Affine::of(0) : index.low);
        access.unknown.push_back(index.everything);
      }
      out_.push_back(std::move(access));
    }
  }

 private:
  LoopNest& nest_;
  std::vector<NestAccess>& out_;
  size_t looked_at_ = 0;
};

/// Sets the values of all variables that steps split or fused: `values` [variables] has those of the stage's loops.
void derive_values(LoopNest& nest, const NestStage& stage, std::vector<Affine>& values) {
  AffinePool& pool = nest.pool;
  const auto value = [&](int32_t id) -> Affine& { return values[id]; };
  for (auto relation = stage.relations.rbegin(); relation != stage.relations.rend(); ++relation) {
    const Affine inner = nest.variables[relation->inner].extent;
    if (relation->kind == NestRelation::Kind::fuse) {
      value(relation->outer) = pool.floor_divide(value(relation->parent), inner);
      value(relation->inner) = pool.floor_modulo(value(relation->parent), inner);
    } else {
      value(relation->parent) = pool.add(value(relation->inner), pool.multiply(value(relation->outer), inner));
    }
  }
}

/// The targets of the variables in the tree of `root`.
void collect_variables(const ExpressionTree& tree, int32_t root, std::vector<int32_t>& targets) {
  if (tree.node(root).kind == ExpressionKind::variable) targets.push_back(tree.node(root).target);
  for (const int32_t child : tree.children(root)) collect_variables(tree, child, targets);
}

}  // namespace

void axis_values(LoopNest& nest, size_t stage, std::vector<Affine>& values) {
  AffinePool& pool = nest.pool;
  const NestStage& loops = nest.stages[stage];
  std::vector<Affine> of_variable(nest.variables.size(), Affine::of(0));
  const auto value = [&](int32_t id) -> Affine& { return of_variable[id]; };
  const auto variable = [&](int32_t id) -> const NestVariable& { return nest.variables[id]; };
  for (const NestIterator& iterator : loops.iterators) {
    const AffineBounds extent = pool.bounds(variable(iterator.variable).extent);
    value(iterator.variable) = pool.variable(iterator.variable, {0, std::max<int64_t>(extent.high - 1, 0)});
  }
  derive_values(nest, loops, of_variable);
  values.clear();
  for (const int32_t axis : loops.axes) values.push_back(pool.add(value(axis), variable(axis).minimum));
}

void stage_accesses(LoopNest& nest, size_t stage, size_t output, std::vector<NestAccess>& accesses) {
  accesses.clear();
  std::vector<Affine> values;
  axis_values(nest, stage, values);
  const size_t rank = nest.dag->stages[stage].axes.size();
  NestAccess written;
  written.memory = nest.dag->memory(stage, output);
  written.indices.assign(values.begin(), values.begin() + rank);
  written.unknown.assign(rank, 0);
  accesses.push_back(std::move(written));
  std::vector<IndexInterval> axes;
  axes.reserve(values.size());
  for (const Affine& value : values) axes.push_back({value, value});
  Accesses reads(nest, accesses);
  const DagStage& defined = nest.dag->stages[stage];
  if (defined.combine.empty()) {
    reads.read(stage, output, axes);
    return;
  }
  std::vector<int32_t> variables;
  collect_variables(nest.dag->expressions, defined.combine[output], variables);
  std::ranges::sort(variables);
  variables.erase(std::unique(variables.begin(), variables.end()), variables.end());
  for (const int32_t variable : variables) {
    const size_t operand = variable;
    if (operand >= defined.outputs()) {
      reads.read(stage, operand - defined.outputs(), axes);
    } else if (operand != output) {
      accesses.push_back(accesses.front());
      accesses.back().memory = nest.dag->memory(stage, operand);
    }
  }
}

namespace {

using NodeKind = NestNode::Kind;

/// The bits of the axes that a loop covers; a fusion of both kinds of axes has both bits.
constexpr uint8_t kOfSpatial = 1, kOfReduction = 2;

class Builder {
 public:
  Builder(LoopNest& nest, NestStatements& out)
      : nest_(nest), pool_(nest.pool), out_(out), belongs_(nest.variables.size(), 0), value_(nest.variables.size()) {
    out_.nodes.clear();
    out_.axis_values.clear();
    out_.shared_loop.clear();
    attached_.resize(nest.stages.size());
    for (size_t i = 0; i < nest_.stages.size(); ++i) {
      const NestStage& stage = nest_.stages[i];
      if (stage.compute_at == ComputeAt::iterator && stage.attach_loop >= 0)
        attached_[nest_.stage_of(variable(stage.attach_loop).serial)].push_back(i);
    }
  }

  void build() {
    int32_t parent = -1;
    for (size_t i = 0; i < nest_.stages.size(); ++i)
      if (!nest_.dag->stages[i].input && nest_.stages[i].compute_at == ComputeAt::root) parent = stage(i, parent);
  }

 private:
  NestVariable& variable(int32_t id) { return nest_.variables[id]; }
  int32_t initial_number(int32_t id) const { return id + std::ssize(nest_.variables); }

  int32_t add(NestNode node) {
    if (out_.nodes.size() >= kMostNestNodes) throw DataError("more than {} loops and statements", kMostNestNodes);
    out_.nodes.push_back(node);
    return std::ssize(out_.nodes) - 1;
  }

  /// Memory, loops and stores of a stage and of those attached to it; gives the allocation, around what comes after.
  int32_t stage(size_t number, int32_t parent) {
    const NestStage& loops = nest_.stages[number];
    const DagStage& defined = nest_.dag->stages[number];
    NestNode allocation{
        .kind = NodeKind::allocation, .parent = parent, .stage = static_cast<int32_t>(number), .count = 1};
    for (size_t i = 0; i < defined.axes.size(); ++i) {
      const int64_t extent = std::max<int64_t>(pool_.bounds(variable(loops.axes[i]).extent).high, 0);
      if (__builtin_mul_overflow(allocation.count, extent, &allocation.count))
        throw DataError("stage {}: memory of more than 2^63 elements", number);
    }
    for (size_t k = 0; k + 1 < defined.outputs(); ++k) {
      allocation.output = k;
      allocation.parent = add(allocation);
    }
    allocation.output = defined.outputs() - 1;
    const int32_t memory = add(allocation);
    find_owners(number);
    const bool reduction = !defined.reduce_axes.empty();
    const size_t count = loops.iterators.size();
    size_t common = count;
    for (size_t i = 0; reduction && i < count; ++i) {
      if ((belongs(loops.iterators[i].variable) & kOfReduction) == 0) continue;
      common = i;
      break;
    }
    std::vector<uint8_t> of_init;  // belongs_ is overwritten by attached stages
    for (size_t i = common; i < count; ++i) of_init.push_back(belongs(loops.iterators[i].variable) != kOfReduction);
    const size_t first_thread = threads_.size();
    int32_t inner = memory;
    for (size_t i = 0; i < common; ++i) inner = main_loop(number, i, inner);
    if (reduction) {
      int32_t init = inner;
      const size_t before = threads_.size();
      for (size_t i = common; i < count; ++i)
        if (of_init[i - common]) init = loop(number, i, init, true);
      find_owners(number);
      store(number, init, true, common);
      threads_.resize(before);
    }
    for (size_t i = common; i < count; ++i) inner = main_loop(number, i, inner);
    find_owners(number);
    store(number, inner, false, count);
    threads_.resize(first_thread);
    return memory;
  }

  uint8_t& belongs(int32_t id) { return belongs_[id]; }

  void find_owners(size_t number) {
    const NestStage& loops = nest_.stages[number];
    const size_t rank = nest_.dag->stages[number].axes.size();
    for (const NestIterator& iterator : loops.iterators) belongs(iterator.variable) = 0;
    for (size_t i = 0; i < loops.axes.size(); ++i) belongs(loops.axes[i]) = i < rank ? kOfSpatial : kOfReduction;
    for (const NestRelation& relation : loops.relations) {
      if (relation.kind == NestRelation::Kind::fuse)
        belongs(relation.parent) = belongs(relation.outer) | belongs(relation.inner);
      else belongs(relation.outer) = belongs(relation.inner) = belongs(relation.parent);
    }
  }

  /// A loop with what is attached to it.
  int32_t main_loop(size_t number, size_t position, int32_t parent) {
    parent = loop(number, position, parent, false);
    const int32_t id = nest_.stages[number].iterators[position].variable;
    for (const int32_t attached : attached_[number]) {
      const size_t inside = attached;
      if (nest_.stages[inside].attach_loop == id) parent = stage(inside, parent);
    }
    return parent;
  }

  int32_t loop(size_t number, size_t position, int32_t parent, bool initial) {
    const NestStage& loops = nest_.stages[number];
    const NestIterator& iterator = loops.iterators[position];
    NestNode node{
        .kind = NodeKind::pragma, .initial = initial, .parent = parent, .stage = static_cast<int32_t>(number)};
    if (loops.unroll_variable == iterator.variable) {
      node.count = loops.auto_unroll_max_step;
      node.parent = add(node);
    }
    const NestVariable& looped = variable(iterator.variable);
    const bool thread = binds_thread(iterator.annotation);
    if (!thread && looped.extent.constant() && looped.extent.base == 1) return node.parent;
    node.kind = NodeKind::loop;
    node.annotation = iterator.annotation;
    node.variable = initial && !thread ? initial_number(iterator.variable) : iterator.variable;
    node.extent = looped.extent;
    if (!node.extent.constant()) node.extent = length(number, iterator.variable, pool_.bounds(looped.extent).high);
    const int64_t most = pool_.bounds(node.extent).high;
    node.count = most >= kUnbounded ? 1 : std::max<int64_t>(most, 0);  // unknown: 1, as TVM takes it
    if (!thread) return add(node);
    // A thread runs all loops that are bound to it at once: the inner ones share its variable.
    for (const auto& [annotation, outer] : threads_) {
      if (annotation != iterator.annotation || annotation == Annotation::vthread) continue;
      if (out_.shared_loop.empty()) out_.shared_loop.assign(nest_.variables.size(), -1);
      out_.shared_loop[iterator.variable] = outer;
      return node.parent;
    }
    threads_.emplace_back(iterator.annotation, iterator.variable);
    return add(node);
  }

  Affine loop_value(int32_t id, bool initial) {
    const int64_t most = pool_.bounds(variable(id).extent).high;
    const AffineBounds bounds{0, most >= kUnbounded ? kUnbounded : std::max<int64_t>(most - 1, 0)};
    if (!out_.shared_loop.empty() && out_.shared_loop[id] >= 0) id = out_.shared_loop[id];
    return pool_.variable(initial && variable(id).thread == Annotation::none ? initial_number(id) : id, bounds);
  }

  /// Computes all variables of a stage over its loops. Starting with the loop `common`, an initial store has separate
  /// loops.
  void find_values(size_t number, bool initial, size_t common) {
    const NestStage& loops = nest_.stages[number];
    for (size_t i = 0; i < loops.iterators.size(); ++i) {
      const int32_t id = loops.iterators[i].variable;
      const bool skipped = initial && belongs(id) == kOfReduction;
      value_[id] = skipped ? Affine::of(0) : loop_value(id, initial && i >= common);
    }
    derive_values(nest_, loops, value_);
  }

  /// The length of a reduction that depends on the place, over the loops around it; a constant where it was split.
  Affine length(size_t number, int32_t id, int64_t most) {
    const DagStage& defined = nest_.dag->stages[number];
    const NestStage& loops = nest_.stages[number];
    const size_t axis = std::ranges::find(loops.axes, id) - loops.axes.begin();
    if (axis == loops.axes.size() || defined.axis(axis).symbolic < 0) return Affine::of(most);
    find_values(number, false, loops.iterators.size());
    std::vector<Affine> values;
    for (size_t i = 0; i < axis; ++i)
      values.push_back(pool_.add(value_[loops.axes[i]], variable(loops.axes[i]).minimum));
    pool_.keep_divisors(true);
    const Affine extent = index_value(nest_.dag->expressions, defined.axis(axis).symbolic, values, pool_);
    pool_.keep_divisors(false);
    return extent;
  }

  /// The stores of a stage, in the guards that loops need which overrun what they were split from.
  void store(size_t number, int32_t parent, bool initial, size_t common) {
    const NestStage& loops = nest_.stages[number];
    const DagStage& defined = nest_.dag->stages[number];
    const auto value = [&](int32_t id) -> Affine& { return value_[id]; };
    find_values(number, initial, common);
    parent = guards(number, parent, initial);
    NestNode node{.kind = NodeKind::store, .initial = initial, .parent = parent, .stage = static_cast<int32_t>(number)};
    node.update = !initial && !defined.reduce_axes.empty();
    node.axes = out_.axis_values.size();
    for (const int32_t axis : loops.axes) {
      const bool skipped = initial && belongs(axis) == kOfReduction;
      out_.axis_values.push_back(skipped ? Affine::of(0) : pool_.add(value(axis), variable(axis).minimum));
    }
    for (size_t k = 0; k < defined.outputs(); ++k) {
      node.output = k;
      add(node);
    }
  }

  int32_t guards(size_t number, int32_t parent, bool initial) {
    const NestStage& loops = nest_.stages[number];
    const DagStage& defined = nest_.dag->stages[number];
    NestNode node{.kind = NodeKind::guard, .initial = initial, .parent = parent, .stage = static_cast<int32_t>(number)};
    const auto check = [&](const Affine& value, const Affine& bound) {
      if (pool_.bounds(pool_.subtract(value, bound)).high < 0) return;
      node.value = value;
      node.bound = bound;
      node.parent = add(node);
    };
    std::vector<uint8_t>& overruns = overruns_;
    overruns.assign(nest_.variables.size(), 0);
    bool any = false;
    for (auto relation = loops.relations.rbegin(); relation != loops.relations.rend(); ++relation) {
      const auto at = [&](int32_t id) -> uint8_t& { return overruns[id]; };
      if (relation->kind == NestRelation::Kind::fuse) {
        at(relation->outer) = at(relation->inner) = at(relation->parent);
      } else {
        const Affine product = pool_.multiply(variable(relation->outer).extent, variable(relation->inner).extent);
        at(relation->parent) =
            at(relation->outer) || at(relation->inner) || !pool_.same(product, variable(relation->parent).extent);
        any |= at(relation->parent) != 0;
      }
    }
    const auto checked_variable = [&](int32_t id) {
      if (overruns[id] && !(initial && belongs(id) == kOfReduction)) check(value_[id], variable(id).extent);
    };
    if (any) {
      for (const int32_t axis : loops.axes) checked_variable(axis);
      for (const NestRelation& relation : loops.relations) {
        if (relation.kind == NestRelation::Kind::fuse) {
          checked_variable(relation.parent);
        } else {
          checked_variable(relation.outer);
          checked_variable(relation.inner);
        }
      }
    }
    if (initial) return node.parent;
    // What is needed of a stage may lie beyond its ends, where its readers never use it.
    for (size_t i = 0; i < loops.axes.size(); ++i) {
      const NestVariable& axis = variable(loops.axes[i]);
      const bool whole = axis.minimum.constant() && axis.minimum.base == 0 && axis.extent.constant() &&
                         axis.extent.base == defined.axis(i).extent;
      if (whole || defined.axis(i).symbolic >= 0) continue;
      const Affine value = pool_.add(value_[loops.axes[i]], axis.minimum);
      if (pool_.bounds(value).low < 0) {
        node.at_least = true;
        node.value = value;
        node.parent = add(node);
        node.at_least = false;
      }
      check(value, Affine::of(defined.axis(i).extent));
    }
    return node.parent;
  }

  LoopNest& nest_;
  AffinePool& pool_;
  NestStatements& out_;
  std::vector<std::vector<int32_t>> attached_;           // [stages] those attached to its loops, in order
  std::vector<uint8_t> belongs_, overruns_;              // [variables]
  std::vector<Affine> value_;                            // [variables] over loop variables
  std::vector<std::pair<Annotation, int32_t>> threads_;  // around what is being built
};

}  // namespace

void nest_statements(LoopNest& nest, NestStatements& statements) { Builder(nest, statements).build(); }

}  // namespace foretime::data
