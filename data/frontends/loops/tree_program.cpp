#include "data/frontends/loops/tree_program.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/index_range.h"
#include "base/text.h"
#include "data/frontends/ansor/replay/index_interval.h"
#include "data/graphs/schema.h"

namespace foretime::data {
namespace {

constexpr int32_t kElementBytes = 4;
constexpr double kLargestInteger = 1e15;  // an immediate beyond it is no index

/// Classifies node types; operations, variables and numbers are expressions.
enum class Role : uint8_t { other, loop, attribute, store, ramp, expression };

struct Meaning {
  Role role = Role::other;
  ExpressionKind kind = ExpressionKind::text;
};

std::array<Meaning, kTirTypes> make_meanings() {
  std::array<Meaning, kTirTypes> meanings{};
  // By ExpressionKind.
  constexpr auto kKinds = split_words<26>(
      "IntImm FloatImm Var Add Sub Mul Div Mod FloorDiv FloorMod Min Max EQ NE LT LE GT GE And Or Not Select Cast "
      "BufferLoad Call StringImm");
  for (size_t kind = 0; kind < kKinds.size(); ++kind)
    meanings[tir_type_id(kKinds[kind])] = {Role::expression, static_cast<ExpressionKind>(kind)};
  for (const char* name : {"ProducerLoad", "Load"})
    meanings[tir_type_id(name)] = {Role::expression, ExpressionKind::load};
  meanings[tir_type_id("SizeVar")] = {Role::expression, ExpressionKind::variable};
  meanings[tir_type_id("For")].role = Role::loop;
  meanings[tir_type_id("AttrStmt")].role = Role::attribute;
  for (const char* name : {"BufferStore", "ProducerStore", "Store"}) meanings[tir_type_id(name)].role = Role::store;
  for (const char* name : {"Ramp", "Broadcast"}) meanings[tir_type_id(name)].role = Role::ramp;
  return meanings;
}

const Meaning& meaning_of(uint8_t type) {
  static const auto meanings = make_meanings();
  return meanings[type];
}

}  // namespace

struct TreeProgram::Tree {
  const ProgramNodes& nodes;
  size_t first = 0;
  int32_t count = 0;

  size_t at(int32_t node) const { return first + node; }
  Role role(int32_t node) const { return meaning_of(nodes.type[at(node)]).role; }
  ExpressionKind kind(int32_t node) const { return meaning_of(nodes.type[at(node)]).kind; }
  int32_t parent(int32_t node) const { return nodes.parent[at(node)]; }
};

void TreeProgram::read(const ProgramNodes& nodes, int64_t graph, LoopProgram& program) {
  const auto own = entries_of(nodes.graph_ptr, graph);
  const Tree tree{nodes, static_cast<size_t>(own.first()), static_cast<int32_t>(own.size())};
  program.clear();
  buffers_.clear();
  pool_.clear();
  find_places(tree);
  read_indices(tree);
  for (int32_t node = 0; node < tree.count; ++node)
    if (tree.role(node) == Role::store) add_statement(tree, node, program);
  program.finish();
}

void TreeProgram::find_places(const Tree& tree) {
  places_.assign(tree.count, {});
  const auto place = [&](int32_t node) -> Place& { return places_[node]; };
  for (int32_t node = 1; node < tree.count; ++node) {
    Place& above = place(tree.parent(node));
    if (above.children[0] < 0) above.children[0] = node;
    else if (above.children[1] < 0) above.children[1] = node;
    above.last_child = node;
  }
  for (int32_t node = 0; node < tree.count; ++node) {
    Place& here = place(node);
    const Role role = tree.role(node);
    if (node > 0) {
      const int32_t parent = tree.parent(node);
      const Place& above = place(parent);
      here.statement = above.statement;
      here.loop = above.loop;
      here.unroll_limit = above.unroll_limit;
      here.condition = above.condition || is_condition(tree.kind(parent));
      here.index = above.index || tree.kind(parent) == ExpressionKind::load ||
                   (tree.role(parent) == Role::store && node != above.last_child);
    }
    if (role == Role::store) here.statement = node;
    if (role == Role::loop) here.loop = node;
    // Of pragmas trees keep the value alone; those of 0 and 1 are switches, such as unroll_explicit.
    const int32_t value = here.children[0];
    if (role == Role::attribute && value >= 0 && tree.kind(value) == ExpressionKind::integer &&
        tree.nodes.value[tree.at(value)] > 1.0 && tree.nodes.value[tree.at(value)] < kLargestInteger)
      here.unroll_limit = tree.nodes.value[tree.at(value)];
  }
}

void TreeProgram::read_indices(const Tree& tree) {
  values_.assign(tree.count, Affine::of(0));
  for (int32_t node = tree.count; node-- > 0;) {  // children before their parents
    if (places_[node].index) values_[node] = index_value(tree, node);
  }
}

Affine TreeProgram::index_value(const Tree& tree, int32_t node) {
  const Place& place = places_[node];
  const auto child = [&](int i) { return place.children[i] >= 0 ? values_[place.children[i]] : Affine::of(0); };
  const Affine b = child(1);
  const ExpressionKind kind = tree.kind(node);
  if (kind == ExpressionKind::integer) {
    const double value = tree.nodes.value[tree.at(node)];
    return Affine::of(std::abs(value) < kLargestInteger ? static_cast<int64_t>(value) : 0);
  }
  if (kind == ExpressionKind::variable) {
    const int32_t variable = tree.nodes.variable[tree.at(node)];
    for (int32_t above = place.loop; above >= 0; above = loop_around(tree, above))
      if (tree.nodes.variable[tree.at(above)] == variable && variable >= 0)
        return pool_.variable(above, {0, std::max<int64_t>(0, tree.nodes.extent[tree.at(above)] - 1)});
    return Affine::of(0);
  }
  if (kind == ExpressionKind::cast || tree.role(node) == Role::ramp) return child(0);
  if (kind < ExpressionKind::add || kind > ExpressionKind::maximum) return Affine::of(0);
  const bool divides = arithmetic_of(kind) == Arithmetic::divide;
  return divides && !(b.constant() && b.base > 0) ? Affine::of(0) : integer_arithmetic(kind, child(0), b, pool_);
}

int32_t TreeProgram::loop_around(const Tree& tree, int32_t loop) const {
  const int32_t parent = tree.parent(loop);
  return parent < 0 ? -1 : places_[parent].loop;
}

Affine TreeProgram::flat_index(const Tree& tree, int32_t access) {
  const Place& place = places_[access];
  if (place.children[0] < 0) return Affine::of(0);
  Affine flat = Affine::of(0);
  for (int32_t node = place.children[0]; node <= place.last_child; ++node) {
    if (tree.parent(node) != access || !places_[node].index) continue;
    const Affine index = values_[node];
    const AffineBounds bounds = pool_.bounds(index);
    const bool bounded = bounds.high < kUnbounded && bounds.low > -kUnbounded;
    flat = pool_.add(pool_.scale(flat, bounded ? bounds.high - bounds.low + 1 : 1), index);
  }
  return flat;
}

void TreeProgram::add_statement(const Tree& tree, int32_t node, LoopProgram& program) {
  if (program.statements.size() == kMostStatements) throw DataError("more than {} statements", kMostStatements);
  const Place& place = places_[node];
  ProgramStatement statement;
  statement.unroll_limit = place.unroll_limit;
  statement.first_loop = program.loops.size();
  statement.first_access = program.accesses.size();
  loop_nodes_.clear();
  for (int32_t above = place.loop; above >= 0; above = loop_around(tree, above))
    if (tree.nodes.extent[tree.at(above)] > 1) loop_nodes_.push_back(above);
  if (loop_nodes_.size() > kMostStatementLoops)
    throw DataError("a statement in more than {} loops", kMostStatementLoops);
  std::ranges::reverse(loop_nodes_);
  index_loops_.clear();
  for (const int32_t loop : loop_nodes_) {
    const int64_t extent = tree.nodes.extent[tree.at(loop)];
    const auto kind = static_cast<LoopKind>(std::max<int8_t>(0, tree.nodes.loop_kind[tree.at(loop)]));
    program.loops.push_back({.extent = extent, .kind = kind, .id = loop});
    index_loops_.push_back({loop, extent});
  }
  statement.loops = loop_nodes_.size();
  add_access(tree, node, program);
  const int32_t written = program.accesses.back().buffer;
  bool constant = true;
  for (int32_t inside = node + 1; inside < tree.count; ++inside) {
    const Place& part = places_[inside];
    if (part.statement != node) break;  // a tree's nodes follow its root in pre-order
    if (part.index) continue;
    if (!part.condition) count_arithmetic(tree, inside, statement);
    if (tree.kind(inside) != ExpressionKind::load) continue;
    constant = false;
    if (buffer_of(tree, inside, program) == written) statement.update = true;
    else add_access(tree, inside, program);
  }
  statement.initial = constant;
  statement.accesses = std::ssize(program.accesses) - statement.first_access;
  program.statements.push_back(statement);
}

void TreeProgram::add_access(const Tree& tree, int32_t node, LoopProgram& program) {
  const int32_t buffer = buffer_of(tree, node, program);
  program.accesses.push_back({buffer, static_cast<uint32_t>(program.strides.size())});
  pattern_.append(pool_, flat_index(tree, node), index_loops_, program.buffers[buffer].elements, kElementBytes,
                  program.strides);
}

void TreeProgram::count_arithmetic(const Tree& tree, int32_t node, ProgramStatement& statement) {
  auto kind = arithmetic_of(tree.kind(node));
  if (!kind) return;
  static const uint8_t if_then_else = call_op_index("if_then_else");
  if (*kind == Arithmetic::call && tree.nodes.call_op[tree.at(node)] == if_then_else) kind = Arithmetic::select;
  ++statement.arithmetic[index_of(*kind)];
}

int32_t TreeProgram::buffer_of(const Tree& tree, int32_t node, LoopProgram& program) {
  const int32_t identity = tree.nodes.buffer[tree.at(node)];
  for (size_t i = 0; i < buffers_.size(); ++i)
    if (buffers_[i] == identity) return i;
  buffers_.push_back(identity);
  program.buffers.push_back(
      {.elements = std::max<int64_t>(1, tree.nodes.buffer_elements[tree.at(node)]), .element_bytes = kElementBytes});
  return std::ssize(buffers_) - 1;
}

}  // namespace foretime::data
