#include "data/program/loop_graph.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "data/error.h"
#include "data/schema.h"

namespace foretime::data {
namespace {

using Columns = LoopColumns;

constexpr double kElementBytes = 4.0;  // of caches' capacities in elements
constexpr double kDepthScale = 0.125;
constexpr double kUnrolledInstructions = 256.0;  // about what a core's cache of decoded instructions holds

double log_of(double value) { return std::log2(1.0 + std::max(0.0, value)); }
float flag(bool value) { return value ? 1.0f : 0.0f; }
double excess(double value, double limit) { return std::max(0.0, log_of(value) - log_of(limit)); }

struct NodeTypes {
  uint8_t loop = tir_type_id("For"), statement = tir_type_id("BufferStore"), access = tir_type_id("BufferLoad");
  std::array<uint8_t, kArithmetic> operations = {tir_type_id("Add"),    tir_type_id("Mul"),  tir_type_id("Div"),
                                                 tir_type_id("Max"),    tir_type_id("Select"), tir_type_id("Call"),
                                                 tir_type_id("Cast")};
};

const NodeTypes& types() {
  static const NodeTypes all;
  return all;
}

int32_t narrow(size_t value) {
  if (value > static_cast<size_t>(std::numeric_limits<int32_t>::max()))
    throw DataError("loop graphs with more than 2^31 - 1 nodes, expected fewer programs in a group");
  return static_cast<int32_t>(value);
}

}  // namespace

Hardware hardware_of_target(std::string_view target, int64_t cores) {
  constexpr std::string_view kOption = "-mcpu=";
  Hardware hardware;
  hardware.cores = std::max<int64_t>(1, cores);
  hardware.vector_bytes = 16;
  hardware.vector_registers = 16;
  const size_t at = target.find(kOption);
  if (at == std::string_view::npos) return hardware;
  auto cpu = target.substr(at + kOption.size());
  cpu = cpu.substr(0, cpu.find(' '));
  const auto is = [&](std::string_view name) { return cpu.find(name) != std::string_view::npos; };
  if (is("avx512") || is("znver4") || is("znver5") || is("icelake") || is("cascadelake") || is("cooperlake") ||
      is("sapphirerapids") || is("rocketlake") || is("tigerlake") || is("knl") || is("knm")) {
    hardware.vector_bytes = 64;
    hardware.vector_registers = 32;
  } else if (is("avx2") || is("haswell") || is("broadwell") || is("skylake") || is("znver") || is("alderlake")) {
    hardware.vector_bytes = 32;
  } else if (is("cortex") || is("neoverse") || is("apple") || is("a64")) {
    hardware.vector_registers = 32;
  }
  return hardware;
}

/// What the loops passed so far, from the innermost on, make of the statement's body once vectorised and unrolled.
struct LoopGraphs::Tile {
  double lanes, registers;             // of the machine
  double written = 1.0;                // elements of the store
  double bodies = 1.0, vector = 1.0;   // copies of the body; elements of a vector

  void pass(const ProgramLoop& loop, const LoopAccess& store) {
    const auto extent = static_cast<double>(loop.extent);
    const bool vectorized = loop.kind == LoopKind::vectorized;
    if (loop.unrolled) bodies *= extent;
    if (vectorized) vector *= extent;
    if ((loop.unrolled || vectorized) && store.distinct > 1.0) written *= extent;
  }

  void set(double extent, float* columns) const {
    const double vectors = std::ceil(vector / lanes), outputs = written / vector;
    const double accumulators = outputs * vectors;
    const std::array<double, Columns::kTile> values = {
        log_of(accumulators),
        excess(accumulators, registers),
        std::log2(vector / (lanes * vectors)),
        log_of(bodies * vectors),
        log_of(bodies / outputs),
        vector <= lanes && std::exp2(std::round(std::log2(vector))) == vector ? 1.0 : 0.0,
        log_of(vectors),
        excess(bodies * vectors, kUnrolledInstructions),
        log_of(written / lanes),
        log_of(bodies),
        log_of(vector),
        std::min(0.0, log_of(written / lanes) - log_of(registers)),
        std::fmod(extent, lanes) == 0.0 ? 1.0 : 0.0,
    };
    for (size_t i = 0; i < values.size(); ++i) columns[i] = static_cast<float>(values[i]);
  }
};

void LoopGraphs::add(const LoopProgram& program, double operations) {
  if (!(operations > 0.0)) {
    operations = 0.0;
    for (const ProgramStatement& statement : program.statements) {
      double counted = 0.0;
      for (const int32_t count : statement.arithmetic) counted += count;
      operations += counted * program.iterations(statement);
    }
    operations = std::max(1.0, operations);
  }
  writers_.assign(program.buffers.size(), -1);
  size_t before = 0;
  for (size_t s = 0; s < program.statements.size(); ++s) {
    const ProgramStatement& statement = program.statements[s];
    const size_t node = types_.size();
    set_statement(program, s, operations, add_node(types().statement));
    if (s > 0) add_edge(before, node);
    add_loops(program, statement, node);
    add_accesses(program, statement, node);
    add_operations(statement, node);
    writers_[static_cast<size_t>(program.accesses[statement.first_access].buffer)] = narrow(node);
    before = node;
  }
  if (program.statements.empty()) set_statement(program, 0, operations, add_node(types().statement));
  graph_ptr_.push_back(static_cast<int64_t>(types_.size()));
  edge_ptr_.push_back(static_cast<int64_t>(sources_.size()));
  narrow(types_.size());
  narrow(sources_.size());
}

GraphBlock LoopGraphs::finish() {
  GraphBlock block;
  block.feature_count = Columns::count;
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
  features_.resize(features_.size() + static_cast<size_t>(Columns::count), 0.0f);
  return features_.data() + features_.size() - static_cast<size_t>(Columns::count);
}

void LoopGraphs::add_edge(size_t source, size_t target) {
  sources_.push_back(static_cast<int32_t>(source));
  targets_.push_back(static_cast<int32_t>(target));
}

void LoopGraphs::set_statement(const LoopProgram& program, size_t index, double operations, float* row) const {
  const auto set = [row](int64_t column, double value) { row[column] = static_cast<float>(value); };
  set(Columns::is_statement, 1.0);
  if (program.statements.empty()) {
    set(Columns::work, -std::log2(operations));
    return;
  }
  const ProgramStatement& statement = program.statements[index];
  const auto loops = program.loops_of(statement);
  set(Columns::work, std::log2(program.iterations(statement) / operations));
  set(Columns::depth, kDepthScale * static_cast<double>(loops.size()));
  double parallel = 1.0, vector = 1.0;
  for (const ProgramLoop& loop : loops) {
    if (loop.kind == LoopKind::parallel) parallel *= static_cast<double>(loop.extent);
    if (loop.kind == LoopKind::vectorized) vector *= static_cast<double>(loop.extent);
  }
  const auto cores = static_cast<double>(hardware_.cores);
  set(Columns::parallel, log_of(parallel));
  set(Columns::imbalance, std::log2(std::ceil(parallel / cores) * cores / parallel));
  set(Columns::vector, log_of(vector));
  set(Columns::unroll_limit, log_of(static_cast<double>(statement.unroll_limit)));
  set(Columns::initial, statement.initial);
  set(Columns::initial + 1, statement.update);
  for (size_t i = 0; i < kArithmetic; ++i)
    set(Columns::arithmetic + static_cast<int64_t>(i), log_of(statement.arithmetic[i]));
  set(Columns::loads, log_of(statement.accesses - 1.0));
  if (index == 0) return;
  const auto others = program.loops_of(program.statements[index - 1]);
  size_t shared = 0;
  double iterations = 1.0;
  while (shared < loops.size() && shared < others.size() && loops[shared].id == others[shared].id)
    iterations *= static_cast<double>(loops[shared++].extent);
  set(Columns::shared, static_cast<double>(shared) / static_cast<double>(std::max<size_t>(1, loops.size())));
  set(Columns::attached, log_of(iterations - 1.0));
}

void LoopGraphs::add_loops(const LoopProgram& program, const ProgramStatement& statement, size_t node) {
  // The store, then the loads of the largest buffers: what a convolution's or a product's operands are.
  const auto accesses = program.accesses_of(statement);
  const auto elements = [&](const ProgramAccess* access) {
    return program.buffers[static_cast<size_t>(access->buffer)].elements;
  };
  ordered_.clear();
  for (const ProgramAccess& access : accesses) ordered_.push_back(&access);
  std::stable_sort(ordered_.begin() + 1, ordered_.end(),
                   [&](const ProgramAccess* a, const ProgramAccess* b) { return elements(a) > elements(b); });
  const size_t slots = std::min<size_t>(Columns::kSlots, ordered_.size());
  const auto loops = program.loops_of(statement);
  Tile tile{static_cast<double>(hardware_.vector_bytes) / kElementBytes,
            static_cast<double>(hardware_.vector_registers)};
  loop_nodes_.assign(loops.size(), 0);
  double iterations = 1.0;
  for (size_t i = loops.size(); i-- > 0;) {
    const ProgramLoop& loop = loops[i];
    const auto extent = static_cast<double>(loop.extent);
    const size_t here = types_.size();
    float* row = add_node(types().loop);
    iterations *= extent;
    row[Columns::is_loop] = 1.0f;
    row[Columns::extent] = static_cast<float>(log_of(extent));
    row[Columns::kind + static_cast<int64_t>(loop.kind)] = 1.0f;
    row[Columns::reduction] = flag(loop.reduction);
    row[Columns::unrolled] = flag(loop.unrolled);
    row[Columns::inner_iterations] = static_cast<float>(log_of(iterations));
    if (loops.size() - i <= 2) row[Columns::innermost + static_cast<int64_t>(loops.size() - i) - 1] = 1.0f;
    tile.pass(loop, program.strides_of(statement, accesses[0])[i]);
    tile.set(extent, row + Columns::tile);
    double working_set = 0.0;
    for (size_t k = 0; k < slots; ++k) {
      const LoopAccess& step = program.strides_of(statement, *ordered_[k])[i];
      working_set += step.footprint;
      set_slot(program, *ordered_[k], step, iterations, row + Columns::slots + static_cast<int64_t>(k) * Columns::kSlot);
    }
    row[Columns::working_set] = static_cast<float>(log_of(working_set));
    add_edge(here, node);
    if (i + 1 < loops.size()) add_edge(here - 1, here);
    loop_nodes_[i] = here;
  }
}

void LoopGraphs::set_slot(const LoopProgram& program, const ProgramAccess& access, const LoopAccess& step,
                          double iterations, float* columns) const {
  const double bytes = step.footprint * program.buffers[static_cast<size_t>(access.buffer)].element_bytes;
  const auto stride = static_cast<double>(std::abs(step.stride));
  const std::array<double, Columns::kSlot> values = {
      log_of(stride),
      step.distinct == 1.0 ? 1.0 : 0.0,
      stride == 1.0 ? 1.0 : 0.0,
      log_of(step.distinct),
      log_of(step.footprint),
      log_of(iterations / step.footprint),
      log_of(step.lines),
      excess(bytes, static_cast<double>(hardware_.l1_bytes)),
      excess(bytes, static_cast<double>(hardware_.l2_bytes)),
  };
  for (size_t i = 0; i < values.size(); ++i) columns[i] = static_cast<float>(values[i]);
}

void LoopGraphs::add_accesses(const LoopProgram& program, const ProgramStatement& statement, size_t node) {
  const auto loops = program.loops_of(statement);
  const double iterations = program.iterations(statement);
  const std::array<double, 2> caches = {static_cast<double>(hardware_.l1_bytes),
                                        static_cast<double>(hardware_.l2_bytes)};
  bool store = true;
  for (const ProgramAccess& access : program.accesses_of(statement)) {
    const size_t here = types_.size();
    float* row = add_node(types().access);
    const auto set = [row](int64_t column, double value) { row[column] = static_cast<float>(value); };
    const ProgramBuffer& buffer = program.buffers[static_cast<size_t>(access.buffer)];
    const auto steps = program.strides_of(statement, access);
    const double touched = steps.empty() ? 1.0 : steps[0].footprint;
    set(Columns::is_access, 1.0);
    set(Columns::is_store, store);
    set(Columns::temporary, buffer.temporary);
    set(Columns::distinct, log_of(touched));
    set(Columns::lines, log_of(steps.empty() ? 1.0 : steps[0].lines));
    set(Columns::reuse, log_of(iterations / touched));
    set(Columns::share, touched / static_cast<double>(std::max<int64_t>(1, buffer.elements)));
    if (!steps.empty()) set(Columns::inner_stride, log_of(static_cast<double>(std::abs(steps.back().stride))));
    for (size_t cache = 0; cache < caches.size(); ++cache) {
      double inside = 1.0;
      for (size_t i = loops.size(); i-- > 0 && steps[i].footprint * buffer.element_bytes <= caches[cache];)
        inside *= static_cast<double>(loops[i].extent);
      set(Columns::in_l1 + static_cast<int64_t>(cache), log_of(inside));
    }
    for (size_t i = 0; i < loops.size(); ++i) {
      if (steps[i].distinct > 1.0) add_edge(here, loop_nodes_[i]);
      if (loops[i].kind != LoopKind::vectorized) continue;
      const int64_t stride = std::abs(steps[i].stride);
      set(Columns::vector_stride + std::min<int64_t>(stride, 2), 1.0);
    }
    add_edge(here, node);
    const int32_t writer = writers_[static_cast<size_t>(access.buffer)];
    if (writer >= 0 && (!store || statement.update)) add_edge(static_cast<size_t>(writer), here);
    store = false;
  }
}

void LoopGraphs::add_operations(const ProgramStatement& statement, size_t node) {
  for (size_t i = 0; i < kArithmetic; ++i) {
    if (statement.arithmetic[i] == 0) continue;
    const size_t here = types_.size();
    float* row = add_node(types().operations[i]);
    row[Columns::is_operation] = 1.0f;
    row[Columns::operations] = static_cast<float>(log_of(statement.arithmetic[i]));
    add_edge(here, node);
  }
}

std::vector<std::string> loop_column_names() {
  std::vector<std::string> names(static_cast<size_t>(Columns::count));
  const auto name = [&](int64_t column, const std::string& text) { names[static_cast<size_t>(column)] = text; };
  const auto list = [&](int64_t column, const std::string& prefix, std::initializer_list<const char*> texts) {
    for (const char* text : texts) name(column++, prefix + text);
  };
  const auto kinds = {"serial", "parallel", "vectorized", "unrolled", "thread"};
  list(Columns::is_loop, "loop.", {"is_loop", "extent"});
  list(Columns::kind, "loop.", kinds);
  list(Columns::reduction, "loop.", {"reduction", "unrolled_by_compiler", "inner_iterations", "innermost", "second"});
  list(Columns::tile, "loop.tile.",
       {"accumulators", "accumulators_excess", "lanes_full", "instructions", "reuse", "power_of_two", "vectors",
        "instructions_excess", "outputs", "bodies", "vector", "outputs_short", "extent_fits"});
  name(Columns::working_set, "loop.working_set");
  const std::array<const char*, Columns::kSlots> slots = {"store", "load0", "load1"};
  for (size_t k = 0; k < slots.size(); ++k) {
    list(Columns::slots + static_cast<int64_t>(k) * Columns::kSlot, fmt::format("loop.{}.", slots[k]),
         {"stride", "invariant", "contiguous", "distinct", "footprint", "reuse", "lines", "l1_excess", "l2_excess"});
  }
  list(Columns::is_statement, "statement.",
       {"is_statement", "work", "depth", "parallel", "imbalance", "vector", "unroll_limit", "initial", "update"});
  list(Columns::arithmetic, "statement.", {"add", "multiply", "divide", "minmax", "select", "call", "cast"});
  list(Columns::loads, "statement.", {"loads", "shared_loops", "shared_iterations"});
  list(Columns::is_access, "access.",
       {"is_access", "is_store", "temporary", "distinct", "lines", "reuse", "share", "inner_stride", "vector_invariant",
        "vector_contiguous", "vector_strided", "in_l1", "in_l2"});
  list(Columns::is_operation, "operation.", {"is_operation", "count"});
  return names;
}

}  // namespace foretime::data
