#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "data/frontends/ansor/dag/expression.h"
#include "data/frontends/ansor/replay/replay_work.h"

namespace foretime::data {
namespace {

using Kind = ExpressionKind;

constexpr int32_t kDeepestTree = 1000;  // limit for trees made by substitution

void check_depth(const ExpressionTree& tree, int32_t id) {
  if (tree.node(id).depth > kDeepestTree) throw DataError("expressions nested deeper than those of any real program");
}

/// Makes room for a stage at `place`: every reference to a stage from there on moves by one.
void insert_stage(ComputeDag& dag, size_t place) {
  const int32_t first = place;
  for (size_t i = 0; i < dag.expressions.size(); ++i) {
    auto& node = dag.expressions.node(i);
    if (node.kind == Kind::load && node.target >= first) ++node.target;
  }
  for (DagStage& stage : dag.stages)
    for (DagRead& read : stage.reads)
      if (read.stage >= first) ++read.stage;
  dag.stages.emplace(dag.stages.begin() + place);
}

int32_t axis_node(ExpressionTree& tree, const std::string& name, size_t position) {
  const int32_t id = tree.add(Kind::variable, name, {});
  tree.node(id).target = position;
  return id;
}

/// Gives each tensor of `stage` the body `source[indices]`, of the same tensor of `source`, and the one read that it
/// makes.
void read_only(ComputeDag& dag, DagStage& stage, size_t source, const std::vector<int32_t>& indices) {
  stage.body_text.clear();
  stage.bodies.clear();
  stage.reads.clear();
  for (size_t k = 0; k < stage.outputs(); ++k) {
    const int32_t output = k;
    const int32_t body = dag.expressions.add(Kind::load, dag.stages[source].name, indices);
    dag.expressions.node(body).target = source;
    dag.expressions.node(body).value = dag.stages[source].outputs() > 1 ? output + 1 : 0;
    stage.bodies.push_back(body);
    stage.reads.push_back({static_cast<int32_t>(source), output, output, indices});
  }
}

/// Copies a tree; the variable of axis t becomes replacements[t].
int32_t substitute(ExpressionTree& tree, int32_t root, const std::vector<int32_t>& replacements) {
  const auto node = tree.node(root);
  if (node.kind == Kind::variable) return replacements[node.target];
  std::vector<int32_t> children(tree.children(root).begin(), tree.children(root).end());
  for (int32_t& child : children) child = substitute(tree, child, replacements);
  const std::string name = node.name >= 0 ? tree.name(root) : std::string();
  const int32_t id = node.kind == Kind::integer ? tree.add_integer(node.value) : tree.add(node.kind, name, children);
  tree.node(id).target = node.target;
  tree.node(id).value = node.value;
  check_depth(tree, id);
  return id;
}

/// Sums, products, quotients and remainders as TVM makes them, which folds the neutral elements.
class Arithmetic {
 public:
  explicit Arithmetic(ExpressionTree& tree) : tree_(tree) {}

  int32_t add(int32_t a, int32_t b) { return is(a, 0) ? b : is(b, 0) ? a : make(Kind::add, a, b); }
  int32_t multiply(int32_t a, int64_t b) {
    if (is(a, 0) || b == 0) return tree_.add_integer(0);
    return b == 1 ? a : make(Kind::multiply, a, tree_.add_integer(b));
  }
  int32_t floor_divide(int32_t a, int64_t b) {
    return b == 1 || is(a, 0) ? a : make(Kind::floor_divide, a, tree_.add_integer(b));
  }
  int32_t floor_modulo(int32_t a, int64_t b) {
    return b == 1 || is(a, 0) ? tree_.add_integer(0) : make(Kind::floor_modulo, a, tree_.add_integer(b));
  }

 private:
  bool is(int32_t id, int64_t value) const {
    return tree_.node(id).kind == Kind::integer && tree_.node(id).value == value;
  }
  int32_t make(Kind kind, int32_t a, int32_t b) {
    const int32_t id = tree_.add(kind, {}, std::array{a, b});
    check_depth(tree_, id);
    return id;
  }

  ExpressionTree& tree_;
};

/// The variables of a stage that rfactor's variable is made of or makes up, with their extents and values.
struct Touched {
  Touched(const LoopNest& loops, const NestStage& scheduled, int32_t variable)
      : nest(loops), stage(scheduled), touched(loops.variables.size()), extents(loops.variables.size()) {
    mark(variable);
    find_extents();
  }

  bool is(int32_t variable) const { return touched[variable]; }
  void set(int32_t variable) { touched[variable] = true; }
  int64_t& extent(int32_t variable) { return extents[variable]; }

  void mark(int32_t variable) {
    set(variable);
    for (auto relation = stage.relations.rbegin(); relation != stage.relations.rend(); ++relation) {
      if (relation->kind == NestRelation::Kind::fuse) {
        if (!is(relation->parent)) continue;
        set(relation->outer);
        set(relation->inner);
      } else if (is(relation->outer) || is(relation->inner)) {
        set(relation->parent);
      }
    }
    for (const NestRelation& relation : stage.relations) {
      if (relation.kind == NestRelation::Kind::fuse) {
        if (is(relation.outer) || is(relation.inner)) set(relation.parent);
      } else if (is(relation.parent)) {
        set(relation.outer);
        set(relation.inner);
      }
      if (!is(relation.parent)) throw DataError("rfactor after steps on other axes of the stage, expected it before");
    }
  }

  void find_extents() {
    const DagStage& defined = nest.dag->stages[&stage - nest.stages.data()];
    for (size_t i = 0; i < stage.axes.size(); ++i) {
      if (!is(stage.axes[i])) continue;
      if (i < defined.axes.size()) throw DataError("rfactor of a spatial axis, expected a reduction");
      if (defined.axis(i).symbolic >= 0) throw DataError("rfactor of an axis whose extent is not constant");
      extent(stage.axes[i]) = defined.axis(i).extent;
    }
    for (const NestRelation& relation : stage.relations) {
      if (relation.kind == NestRelation::Kind::fuse) {
        extent(relation.parent) = checked_multiply(extent(relation.outer), extent(relation.inner));
        continue;
      }
      const int64_t rest = (extent(relation.parent) + relation.factor - 1) / relation.factor;
      const bool by_factor = relation.kind == NestRelation::Kind::split_factor;
      extent(relation.inner) = by_factor ? relation.factor : rest;
      extent(relation.outer) = by_factor ? rest : relation.factor;
    }
  }

  /// Values of the touched axes over the leaves, whose values are given.
  void derive_values(Arithmetic& arithmetic, std::vector<int32_t>& values) {
    for (auto relation = stage.relations.rbegin(); relation != stage.relations.rend(); ++relation) {
      auto value = [&](int32_t variable) -> int32_t& { return values[variable]; };
      const int64_t inner = extent(relation->inner);
      if (relation->kind == NestRelation::Kind::fuse) {
        value(relation->outer) = arithmetic.floor_divide(value(relation->parent), inner);
        value(relation->inner) = arithmetic.floor_modulo(value(relation->parent), inner);
      } else {
        value(relation->parent) =
            arithmetic.add(value(relation->inner), arithmetic.multiply(value(relation->outer), inner));
      }
    }
  }

  const LoopNest& nest;
  const NestStage& stage;
  std::vector<bool> touched;
  std::vector<int64_t> extents;
};

}  // namespace

ComputeDag with_cache_read(const ComputeDag& dag, int32_t stage, std::string_view scope,
                           std::span<const int32_t> readers) {
  ComputeDag made = dag;
  const size_t source = stage, place = source + 1;
  // Several copies of one stage have different names.
  std::string name = dag.stages[source].name;
  const auto taken = [&] {
    return std::ranges::any_of(dag.stages,
                               [&](const DagStage& other) { return other.name == fmt::format("{}.{}", name, scope); });
  };
  while (taken()) name += ".d";
  insert_stage(made, place);
  DagStage& cache = made.stages[place];
  const DagStage& copied = made.stages[source];
  cache.name = fmt::format("{}.{}", name, scope);
  cache.types = {copied.types.front()};  // TVM caches the first tensor
  cache.scope = scope;
  cache.shape = copied.shape;
  std::vector<int32_t> indices;
  for (size_t i = 0; i < cache.shape.size(); ++i) {
    cache.axes.push_back({.name = fmt::format("ax{}", i), .extent = cache.shape[i]});
    indices.push_back(axis_node(made.expressions, cache.axes[i].name, i));
  }
  read_only(made, cache, source, indices);
  for (const int32_t reader : readers) {
    if (reader <= stage || reader >= std::ssize(dag.stages))
      throw DataError("reader {}, expected a stage after {}", reader, stage);
    DagStage& redirected = made.stages[reader + 1];
    bool reads = false;
    for (DagRead& read : redirected.reads) {
      if (read.stage != stage || read.output != 0) continue;
      read.stage = place;
      reads = true;
    }
    if (!reads) throw DataError("reader {}: does not read stage {}", reader, stage);
    std::vector<int32_t> loads;
    for (const int32_t body : redirected.bodies) collect_loads(made.expressions, body, loads);
    for (const int32_t load : loads) {
      auto& node = made.expressions.node(load);
      if (node.target != stage || made.expressions.output(load) != 0) continue;
      node.target = place;
      node.value = 0;
    }
  }
  return made;
}

ComputeDag with_cache_write(const ComputeDag& dag, int32_t stage, std::string_view scope) {
  ComputeDag made = dag;
  const size_t place = stage;
  insert_stage(made, place);
  DagStage& cache = made.stages[place];
  DagStage& copy = made.stages[place + 1];
  cache = copy;
  cache.name += fmt::format(".{}", scope);
  cache.scope = scope;
  cache.output = false;
  for (DagAxis& axis : cache.axes) axis.name += ".c";
  copy.reduce_axes.clear();
  copy.combiner.clear();
  copy.combine.clear();
  std::vector<int32_t> indices;
  for (size_t i = 0; i < copy.axes.size(); ++i) indices.push_back(axis_node(made.expressions, copy.axes[i].name, i));
  read_only(made, copy, place, indices);
  return made;
}

ComputeDag with_rfactor(const LoopNest& nest, int32_t stage, int32_t variable, int32_t position) {
  const size_t place = stage;
  const NestStage& scheduled = nest.stages[place];
  Touched touched(nest, scheduled, variable);
  ComputeDag made = *nest.dag;
  insert_stage(made, place);
  ExpressionTree& tree = made.expressions;
  const DagStage before = made.stages[place + 1];
  const int32_t rank = before.axes.size();
  if (position < 0) position += rank + 1;
  if (position < 0 || position > rank)
    throw DataError("axis position {}, expected {} to {}", position, -rank - 1, rank);
  if (before.bodies.empty())
    throw DataError("rfactor of {}, whose body '{}' is not an expression that is known", before.name,
                    before.body_text.substr(0, 60));

  // The axes of the new stage, and what the old ones are over them.
  DagStage factored = before;
  factored.name += ".rf";
  factored.tag.clear();
  factored.output = false;
  const DagAxis factor{.name = loop_name(nest, variable), .extent = touched.extent(variable)};
  factored.axes.insert(factored.axes.begin() + position, factor);
  factored.shape.insert(factored.shape.begin() + position, factor.extent);
  factored.reduce_axes.clear();
  for (size_t i = 0; i < before.reduce_axes.size(); ++i)
    if (!touched.is(scheduled.axes[before.axes.size() + i])) factored.reduce_axes.push_back(before.reduce_axes[i]);
  Arithmetic arithmetic(tree);
  std::vector<int32_t> values(nest.variables.size(), -1);
  for (const NestIterator& iterator : scheduled.iterators) {
    const int32_t leaf = iterator.variable;
    if (!touched.is(leaf)) continue;
    size_t axis = position;
    if (leaf != variable) {
      axis = factored.axis_count();
      factored.reduce_axes.push_back({.name = loop_name(nest, leaf), .extent = touched.extent(leaf)});
    }
    values[leaf] = touched.extent(leaf) == 1 ? tree.add_integer(0) : axis_node(tree, factored.axis(axis).name, axis);
  }
  touched.derive_values(arithmetic, values);
  std::vector<int32_t> replacements;
  size_t untouched = factored.axes.size();
  for (size_t i = 0; i < before.axis_count(); ++i) {
    const int32_t axis = scheduled.axes[i];
    if (i < before.axes.size()) {
      const size_t moved = i + (std::cmp_greater_equal(i, position) ? 1 : 0);
      replacements.push_back(axis_node(tree, before.axis(i).name, moved));
    } else if (touched.is(axis)) {
      replacements.push_back(values[axis]);
    } else {
      replacements.push_back(axis_node(tree, before.axis(i).name, untouched++));
    }
  }
  for (DagAxis& axis : factored.reduce_axes)
    if (axis.symbolic >= 0) axis.symbolic = substitute(tree, axis.symbolic, replacements);
  for (int32_t& body : factored.bodies) body = substitute(tree, body, replacements);
  for (DagRead& read : factored.reads)
    for (int32_t& index : read.indices) index = substitute(tree, index, replacements);

  // The old stage sums over the new axis.
  DagStage& last = made.stages[place + 1];
  last.name += ".repl";
  last.tag.clear();
  last.reduce_axes = {{.name = factor.name + ".v", .extent = factor.extent}};
  std::vector<int32_t> indices;
  for (size_t i = 0; i < last.axes.size(); ++i) {
    last.axes[i].name = fmt::format("ax{}", i);
    indices.push_back(axis_node(tree, last.axes[i].name, i));
  }
  indices.insert(indices.begin() + position, axis_node(tree, last.reduce_axes[0].name, last.axes.size()));
  made.stages[place] = std::move(factored);
  read_only(made, made.stages[place + 1], place, indices);
  return made;
}

}  // namespace foretime::data
