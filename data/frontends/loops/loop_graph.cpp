#include "data/frontends/loops/loop_graph.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <utility>

#include "base/error.h"
#include "data/graphs/schema.h"

namespace foretime::data {
namespace {

struct NodeTypes {
  uint8_t loop = tir_type_id("For"), statement = tir_type_id("BufferStore"), access = tir_type_id("BufferLoad");
  std::array<uint8_t, kArithmetic> operations = {tir_type_id("Add"), tir_type_id("Mul"),    tir_type_id("Div"),
                                                 tir_type_id("Max"), tir_type_id("Select"), tir_type_id("Call"),
                                                 tir_type_id("Cast")};
};

const NodeTypes& types() {
  static const NodeTypes all;
  return all;
}

int32_t narrow(size_t value) {
  if (value > static_cast<size_t>(std::numeric_limits<int32_t>::max()))
    throw DataError("loop graphs with more than 2^31 - 1 nodes or edges, expected fewer programs in a group");
  return static_cast<int32_t>(value);
}

/// Iterations of the outermost loops that both statements are in.
double shared_iterations(const LoopProgram& program, const ProgramStatement& a, const ProgramStatement& b) {
  const auto of_a = program.loops_of(a), of_b = program.loops_of(b);
  double iterations = 1.0;
  for (size_t d = 0; d < std::min(of_a.size(), of_b.size()) && of_a[d].id == of_b[d].id; ++d)
    iterations *= static_cast<double>(of_a[d].extent);
  return iterations;
}

double operations_of(const LoopProgram& program) {
  double operations = 0.0;
  for (const ProgramStatement& statement : program.statements) {
    double counted = 0.0;
    for (const int32_t count : statement.arithmetic) counted += count;
    operations += counted * program.iterations(statement);
  }
  return std::max(1.0, operations);
}

}  // namespace

void LoopGraphs::find_places(const LoopProgram& program, double operations) {
  const auto& statements = program.statements;
  places_.assign(statements.size(), {});
  double iterations = 0.0;
  for (const ProgramStatement& statement : statements) iterations += program.iterations(statement);
  std::set<int32_t> started;  // parallel loops
  for (size_t i = 0; i < statements.size(); ++i) {
    StatementPlace& place = places_[i];
    place = {.index = i, .statements = statements.size(), .iterations_of_all = iterations, .operations = operations};
    if (i > 0) place.shared_before = shared_iterations(program, statements[i], statements[i - 1]);
    if (i + 1 < statements.size()) place.shared_after = shared_iterations(program, statements[i], statements[i + 1]);
    for (const ProgramLoop& loop : program.loops_of(statements[i])) {
      if (loop.kind != LoopKind::parallel) continue;
      place.starts_threads = started.insert(loop.id).second;
      break;
    }
  }
}

void LoopGraphs::add(const LoopProgram& program, double operations) {
  find_places(program, operations > 0.0 ? operations : operations_of(program));
  writers_.assign(program.buffers.size(), -1);
  size_t before = 0;
  for (size_t s = 0; s < program.statements.size(); ++s) {
    const size_t node = types_.size();
    add_statement(program, places_[s]);
    if (s > 0) add_edge(before, node);
    before = node;
  }
  if (program.statements.empty()) add_node(types().statement)[LoopColumns::statement] = 1.0F;  // costs nothing
  graph_ptr_.push_back(static_cast<int64_t>(types_.size()));
  edge_ptr_.push_back(static_cast<int64_t>(sources_.size()));
  narrow(types_.size());
  narrow(sources_.size());
}

GraphBlock LoopGraphs::finish() {
  GraphBlock block;
  block.feature_count = LoopColumns::count;
  block.node_type_count = kTirTypes;
  block.graph_ptr = std::exchange(graph_ptr_, {0});
  block.edge_ptr = std::exchange(edge_ptr_, {0});
  block.node_features = std::exchange(features_, {});
  block.node_types = std::exchange(types_, {});
  block.edge_source = std::exchange(sources_, {});
  block.edge_target = std::exchange(targets_, {});
  return block;
}

float* LoopGraphs::add_node(uint8_t type) {
  types_.push_back(type);
  features_.resize(features_.size() + static_cast<size_t>(LoopColumns::count), 0.0F);
  return features_.data() + features_.size() - static_cast<size_t>(LoopColumns::count);
}

void LoopGraphs::add_edge(size_t source, size_t target) {
  sources_.push_back(static_cast<int32_t>(source));
  targets_.push_back(static_cast<int32_t>(target));
}

void LoopGraphs::add_statement(const LoopProgram& program, const StatementPlace& place) {
  const ProgramStatement& statement = program.statements[place.index];
  const StatementShape shape(program, statement, hardware_);
  const size_t node = types_.size();
  set_statement_columns(shape, place, hardware_, add_node(types().statement));
  const size_t first_loop = types_.size();
  for (size_t d = shape.loop_count(); d-- > 0;) {
    const size_t here = types_.size();
    set_loop_columns(shape, d, hardware_, add_node(types().loop));
    add_edge(here, node);
    if (here > first_loop) add_edge(here - 1, here);
  }
  add_accesses(program, shape, node, first_loop);
  for (size_t i = 0; i < kArithmetic; ++i) {
    if (statement.arithmetic[i] == 0) continue;
    const size_t here = types_.size();
    set_operation_columns(statement.arithmetic[i], add_node(types().operations[i]));
    add_edge(here, node);
  }
  writers_[static_cast<size_t>(program.accesses[statement.first_access].buffer)] = narrow(node);
}

void LoopGraphs::add_accesses(const LoopProgram& program, const StatementShape& shape, size_t node, size_t first_loop) {
  const auto accesses = program.accesses_of(shape.statement);
  for (size_t a = 0; a < accesses.size(); ++a) {
    const size_t here = types_.size();
    set_access_columns(shape, a, program, hardware_, add_node(types().access));
    add_edge(here, node);
    for (size_t d = 0; d < shape.loop_count(); ++d) {
      if (shape.steps(a)[d].distinct > 1.0) add_edge(here, first_loop + shape.loop_count() - 1 - d);
    }
    const int32_t writer = writers_[static_cast<size_t>(accesses[a].buffer)];
    if (writer >= 0 && (a > 0 || shape.statement.update)) add_edge(static_cast<size_t>(writer), here);
  }
}

}  // namespace foretime::data
