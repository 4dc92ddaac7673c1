#include "data/frontends/loops/loop_columns.h"

#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "base/index_range.h"
#include "data/frontends/loops/column_writer.h"
#include "data/frontends/loops/gpu_columns.h"
#include "data/frontends/loops/statement_shape.h"

namespace foretime::data {
namespace {

using Columns = LoopColumns;
using Writer = ColumnWriter;

constexpr double kLineElements = 16.0;
constexpr double kStackBytes = 1024.0;       // a buffer that LLVM may keep in registers
constexpr double kDecodedInstructions = 10;  // log of what a core's cache of decoded instructions holds
constexpr int kInnerLoops = 4;
constexpr size_t kSlots = Columns::kSlots;

/// The depth after the last parallel loop: from there on one task runs.
size_t task_depth(const StatementShape& shape) {
  size_t depth = 0;
  for (size_t d = 0; d < shape.loop_count(); ++d)
    if (runs_in_parallel(shape.loops[d])) depth = d + 1;
  return depth;
}

/// Writes the columns about registers and memory instructions of an unrolled block.
void put_block(const StatementShape& shape, const UnrolledBlock& block, const char* name, Writer& out) {
  const double instructions = block.copies * shape.vector_instructions;
  const double accumulators = shape.instructions(0, block);
  double loads = 0.0;
  for (size_t a = 1; a < std::min(kSlots, shape.all_steps.size()); ++a) loads += shape.instructions(a, block);
  out.put(name, "copies", ratio(block.copies));
  out.put(name, "outputs", ratio(block.outputs));
  out.put(name, "repeats", ratio(block.repeats));
  out.put(name, "loops", shape.loop_count() - block.first);
  out.put(name, "instructions", ratio(instructions));
  out.put(name, "accumulators", ratio(accumulators));
  out.put(name, "accumulators_over", log_excess(accumulators, 0.75 * shape.registers));
  out.put(name, "accumulators_under", std::min(0.0, ratio(accumulators) - std::log2(0.5 * shape.registers)));
  out.put(name, "pressure", ratio(accumulators + loads));
  out.put(name, "pressure_over", log_excess(accumulators + loads, shape.registers));
  out.put(name, "loads", ratio(std::max(loads, 0.5) / instructions));
  const bool kept = accumulators <= 0.875 * shape.registers;
  const double stores = accumulators / instructions * (shape.statement.update ? 2.0 : 1.0) /
                        (kept ? shape.invariant(0, block.first) : 1.0);
  out.put(name, "memory", ratio(stores + loads / instructions));
  const bool any = block.first > 0;
  const size_t d = any ? block.first - 1 : 0;
  out.put(name, "outer_extent", any ? log_of(shape.loops[d].extent) : 0.0);
  out.put(name, "outer_reduction", any && shape.loops[d].reduction);
  out.put(name, "outer_invariant", any && shape.steps(0)[d].stride == 0);
  out.put(name, "outer_parallel", any && runs_in_parallel(shape.loops[d]));
  out.put(name, "outer_none", !any);
}

void put_caches(const StatementShape& shape, Writer& out) {
  for (int c = 0; const size_t fitting : shape.fitting) {
    double bytes = 0.0;
    for (size_t a = 0; a < std::min(kSlots, shape.all_steps.size()); ++a) bytes += shape.traffic(a, fitting);
    out.put("cache", c, "iterations", ratio(shape.iterations_of(fitting, shape.loop_count())));
    out.put("cache", c, "all_fits", fitting == 0);
    out.put("cache", c, "traffic", ratio(std::max(bytes / shape.iterations, 1e-4)));
    ++c;
  }
}

void put_inner_loops(const StatementShape& shape, Writer& out) {
  for (int k = 0; k < kInnerLoops; ++k) {
    const bool there = std::cmp_less(k, shape.loop_count());
    const size_t d = there ? shape.loop_count() - 1 - k : 0;
    out.put("inner", k, "extent", there ? ratio(shape.loops[d].extent) : -1.0);
    out.put("inner", k, "reduction", there ? shape.loops[d].reduction : -1.0);
    out.put("inner", k, "unrolled", there ? shape.loops[d].unrolled : -1.0);
    for (size_t a = 0; a < 3; ++a) {
      double stride = -1.0;
      if (there && a < shape.all_steps.size()) {
        stride = std::abs(shape.steps(a)[d].stride);
        if (stride > 1.0) stride = std::min(2.0 + std::log2(stride), 8.0);
      }
      out.put("inner", k, std::array{"store_stride", "load0_stride", "load1_stride"}[a], stride);
    }
  }
}

void put_statement(const StatementShape& shape, const StatementPlace& place, const Hardware& hardware, Writer& out) {
  const ProgramStatement& s = shape.statement;
  const double cores = hardware.cores;
  out.put("is_statement", 1.0);
  out.put("critical", std::log(shape.critical));
  out.put("launches", place.starts_threads ? shape.outside_parallel : 0.0);
  // Work and cores.
  out.put("iterations", log_of(shape.iterations));
  out.put("of_operations", ratio(shape.iterations / place.operations));
  out.put("share", ratio(shape.iterations / place.iterations_of_all));
  out.put("parallel", log_of(shape.parallel));
  out.put("is_parallel", shape.is_parallel);
  out.put("imbalance",
          shape.is_parallel ? ratio(std::ceil(shape.parallel / cores) * cores / shape.parallel) : ratio(cores));
  out.put("busy_cores", ratio(std::min(shape.parallel, cores)));
  out.put("starts", log_of(shape.outside_parallel - 1.0));
  out.put("task", ratio(shape.iterations / shape.parallel));
  out.put("rounds", log_of(shape.parallel / cores));
  out.put("starts_threads", place.starts_threads);
  // The vector loop.
  out.put("vector", ratio(shape.vector));
  out.put("scalar", shape.vector == 1.0);
  out.put("vector_full", ratio(shape.vector / (shape.lanes * shape.vector_instructions)));
  out.put("vector_instructions", ratio(shape.vector_instructions));
  out.put("vector_fits", std::fmod(shape.vector, shape.lanes) == 0.0);
  // What it does.
  constexpr std::array<const char*, kArithmetic> kNames = {"add",    "multiply", "divide", "minmax",
                                                           "select", "call",     "cast"};
  int32_t all = 0;
  for (size_t i = 0; i < kArithmetic; ++i) {
    out.put(kNames[i], log_of(s.arithmetic[i]));
    if (i <= index_of(Arithmetic::select)) all += s.arithmetic[i];
  }
  out.put("moves_only", all == 0);
  out.put("unroll_limit", log_of(s.unroll_limit));
  out.put("never_unrolled", s.unroll_limit == 0);
  out.put("initial", s.initial);
  out.put("update", s.update);
  out.put("accesses", shape.all_steps.size());
  out.put("loops", shape.loop_count());
  out.put("statements", place.statements);
  out.put("position", place.index);
  out.put("is_last", place.index + 1 == place.statements);
  const double block_instructions =
      shape.block.copies * shape.vector_instructions * (shape.operations + shape.all_steps.size());
  out.put("code", ratio(block_instructions));
  out.put("code_over", std::max(0.0, ratio(block_instructions) - kDecodedInstructions));
  double reductions = 1.0;
  for (size_t d = 0; d < shape.loop_count(); ++d)
    if (shape.loops[d].reduction) reductions *= shape.loops[d].extent;
  out.put("reductions", ratio(reductions));
  const double stored = shape.loop_count() > 0 ? std::max(1.0, shape.steps(0)[0].footprint) : 1.0;
  out.put("recomputed", ratio(shape.iterations / reductions / stored));
  out.put("shared_before", place.shared_before < 0 ? -1.0 : ratio(place.shared_before / shape.iterations));
  out.put("shared_after", place.shared_after < 0 ? -1.0 : ratio(place.shared_after / shape.iterations));
  out.put("widened", shape.widened.first < shape.block.first);
  put_block(shape, shape.block, "block", out);
  put_block(shape, shape.widened, "wide", out);
  put_caches(shape, out);
  double task_bytes = 0.0;
  for (size_t a = 0; a < std::min<size_t>(3, shape.all_steps.size()); ++a) {
    const size_t depth = task_depth(shape);
    task_bytes += (depth < shape.loop_count() ? shape.steps(a)[depth].lines : 1.0) * kLineBytes;
  }
  out.put("task_bytes", log_of(task_bytes));
  out.put("task_over_l1", log_excess(task_bytes, hardware.l1_bytes));
  out.put("task_over_l2", log_excess(task_bytes, hardware.l2_bytes));
  put_inner_loops(shape, out);
}

void put_machine(const StatementShape& shape, const Hardware& hardware, Writer& out) {
  const Hardware machine = with_rates(hardware);
  const double cores = machine.cores;
  out.put("measured", hardware.multiply_add_gflop_s > 0.0 && hardware.copy_gb_s > 0.0);
  out.put("lanes", ratio(shape.lanes));
  out.put("registers", ratio(shape.registers));
  out.put("cores", ratio(cores));
  out.put("l1", ratio(machine.l1_bytes));
  out.put("l2", ratio(machine.l2_bytes));
  out.put("l3", ratio(machine.l3_bytes));
  out.put("multiply_add", ratio(machine.multiply_add_gflop_s));
  out.put("multiply_add_of_all", ratio(machine.all_multiply_add_gflop_s / (cores * machine.multiply_add_gflop_s)));
  out.put("copy", ratio(machine.copy_gb_s));
  out.put("copy_of_all", ratio(machine.all_copy_gb_s / machine.copy_gb_s));
  out.put("roofline", std::log(roofline(shape, machine)));
}

void put_loop(const StatementShape& shape, size_t d, const Hardware& hardware, Writer& out) {
  const ProgramLoop& loop = shape.loops[d];
  const double extent = loop.extent;
  const double inside = shape.iterations_of(d, shape.loop_count());
  const size_t from_inside = shape.loop_count() - 1 - d;
  out.put("is_loop", 1.0);
  out.put("innermost", from_inside == 0);
  out.put("second", from_inside == 1);
  out.put("extent", ratio(extent));
  out.put("inside", ratio(inside));
  out.put("outside", ratio(shape.iterations / inside));
  constexpr std::array<const char*, kLoopKinds> kKinds = {"serial", "parallel", "vectorized", "unrolled", "thread"};
  for (size_t k = 0; k < kLoopKinds; ++k) out.put(kKinds[k], loop.kind == static_cast<LoopKind>(k));
  out.put("multiplied_out", loop.unrolled);
  out.put("reduction", loop.reduction);
  out.put("fits_lanes", std::fmod(extent, shape.lanes) == 0.0);
  out.put("in_block", d >= shape.block.first);
  out.put("around_block", d + 1 == shape.block.first);
  const double bytes = shape.line_bytes(d);
  out.put("bytes", log_of(bytes));
  out.put("over_l1", log_excess(bytes, hardware.l1_bytes));
  out.put("over_l2", log_excess(bytes, hardware.l2_bytes));
  out.put("intensity", ratio(inside / std::max(bytes, 1.0)));
  constexpr std::array<const char*, 3> kAccesses = {"store", "load0", "load1"};
  for (size_t a = 0; a < kAccesses.size(); ++a) {
    const bool there = a < shape.all_steps.size();
    const LoopAccess step = there ? shape.steps(a)[d] : LoopAccess{};
    const double footprint = std::max(1.0, step.footprint), lines = std::max(1.0, step.lines);
    const double stride = std::abs(step.stride);
    const auto put = [&](const char* part, double value) { out.put(kAccesses[a], part, there ? value : 0.0); };
    put("invariant", step.distinct <= 1.0);
    put("contiguous", stride == 1.0);
    put("stride", std::min(12.0, log_of(stride)));
    put("distinct", ratio(step.distinct));
    put("footprint", ratio(footprint));
    put("lines", ratio(lines));
    put("reuse", ratio(inside / footprint));
    put("waste", ratio(lines * kLineElements / footprint));
  }
}

void put_access(const StatementShape& shape, size_t a, const LoopProgram& program, Writer& out) {
  const ProgramAccess& access = program.accesses_of(shape.statement)[a];
  const ProgramBuffer& buffer = program.buffers[access.buffer];
  const auto steps = shape.steps(a);
  const bool any = shape.loop_count() > 0;
  const double instructions = shape.instructions(a, shape.block);
  const double block = shape.block.copies * shape.vector_instructions;
  const double wide = shape.instructions(a, shape.widened);
  const double wide_block = shape.widened.copies * shape.vector_instructions;
  const double kept = shape.invariant(a, shape.block.first), wide_kept = shape.invariant(a, shape.widened.first);
  const bool vector_invariant = shape.has_vector() && steps[shape.vector_depth].stride == 0;
  out.put("is_access", 1.0);
  out.put("is_store", a == 0);
  out.put("vector_contiguous", shape.contiguous(a));
  out.put("vector_invariant", vector_invariant);
  out.put("vector_gathered", shape.has_vector() && !shape.contiguous(a) && !vector_invariant);
  out.put("inner_invariant", any && steps.back().stride == 0);
  out.put("inner_contiguous", any && std::abs(steps.back().stride) == 1);
  out.put("elements", ratio(shape.elements(a, shape.block)));
  out.put("instructions", ratio(instructions));
  out.put("of_block", ratio(instructions / block));
  out.put("kept", ratio(kept));
  out.put("memory", ratio(instructions / block / kept));
  out.put("wide_instructions", ratio(wide));
  out.put("of_wide_block", ratio(wide / wide_block));
  out.put("wide_kept", ratio(wide_kept));
  out.put("wide_memory", ratio(wide / wide_block / wide_kept));
  out.put("temporary", buffer.temporary);
  out.put("written", buffer.written);
  const double buffer_bytes = static_cast<double>(buffer.elements) * buffer.element_bytes;
  out.put("buffer_bytes", log_of(buffer_bytes));
  out.put("on_stack", buffer.temporary && buffer_bytes <= kStackBytes);
  const double footprint = any ? std::max(1.0, steps[0].footprint) : 1.0;
  const double lines = any ? std::max(1.0, steps[0].lines) : 1.0;
  out.put("line_bytes", log_of(lines * kLineBytes));
  out.put("reuse", ratio(shape.iterations / footprint));
  out.put("waste", ratio(lines * kLineElements / footprint));
  const bool in_block = shape.block.first < shape.loop_count();
  const LoopAccess inner = in_block ? steps[shape.block.first] : LoopAccess{};
  out.put("block_waste", in_block ? ratio(inner.lines * kLineElements / std::max(1.0, inner.footprint)) : 4.0);
  double conflicts = 0.0;
  for (size_t d = 0; d < shape.loop_count(); ++d) {
    // Strides of large powers of two fall into few sets of a cache.
    uint64_t stride = std::abs(steps[d].stride);
    if (shape.loops[d].kind == LoopKind::parallel || steps[d].distinct <= 4.0 || stride == 0) continue;
    int zeros = 0;
    for (; zeros < 12 && stride % 2 == 0; stride /= 2) ++zeros;
    conflicts = std::max(conflicts, std::max(0, zeros - 6) * std::log2(std::min(steps[d].distinct, 64.0)) / 6.0);
  }
  out.put("conflicts", conflicts);
  const size_t task = task_depth(shape);
  out.put("task_bytes", log_of((task < shape.loop_count() ? steps[task].lines : 1.0) * kLineBytes));
  double moved = 1.0, tasks = 1.0;
  for (size_t d = 0; d < task; ++d) {
    if (shape.loops[d].kind != LoopKind::parallel) continue;
    moved *= steps[d].distinct;
    tasks *= shape.loops[d].extent;
  }
  out.put("task_own", ratio(moved / tasks));
  for (int c = 0; const size_t fitting : shape.fitting)
    out.put("cache", c++, "traffic", ratio(std::max(shape.traffic(a, fitting) / shape.iterations, 1e-4)));
}

void put_operation(int32_t count, Writer& out) {
  out.put("is_operation", 1.0);
  out.put("count", log_of(count));
}

void expect(const char* kind, int64_t written, int64_t expected) {
  FORETIME_CHECK(written == expected, "{} columns: {}, LoopColumns has {}", kind, written, expected);
}

/// One statement in one loop.
LoopProgram smallest_program() {
  LoopProgram program;
  program.loops.push_back({.extent = 2});
  program.strides.resize(1);
  program.accesses.push_back({});
  program.buffers.push_back({});
  program.statements.push_back({.loops = 1, .accesses = 1});
  return program;
}

}  // namespace

void set_statement_columns(const StatementShape& shape, const StatementPlace& place, const Hardware& hardware,
                           float* row) {
  Writer out(row + Columns::statement);
  put_statement(shape, place, hardware, out);
}

void set_machine_columns(const StatementShape& shape, const Hardware& hardware, float* row) {
  Writer out(row + Columns::machine);
  put_machine(shape, hardware, out);
}

void set_loop_columns(const StatementShape& shape, size_t depth, const Hardware& hardware, float* row) {
  Writer out(row + Columns::loop);
  put_loop(shape, depth, hardware, out);
}

void set_access_columns(const StatementShape& shape, size_t access, const LoopProgram& program, float* row) {
  Writer out(row + Columns::access);
  put_access(shape, access, program, out);
}

void set_operation_columns(int32_t count, float* row) {
  Writer out(row + Columns::operation);
  put_operation(count, out);
}

MachineValues machine_values(const Hardware& hardware) {
  const LoopProgram program = smallest_program();
  std::array<float, Columns::count> row = {};
  set_machine_columns(StatementShape(program, program.statements[0], hardware), hardware, row.data());
  MachineValues values;
  for (size_t i = 0; i < values.size(); ++i) values[i] = row[Columns::of_machine_alone[i]];
  return values;
}

std::vector<std::string> loop_column_names(int64_t columns) {
  const LoopProgram program = smallest_program();
  const Hardware hardware;
  const StatementShape shape(program, program.statements[0], hardware);
  std::vector<std::string> names;
  const auto range = [&](const char* kind, int64_t expected, auto&& put) {
    std::vector<std::string> of_kind;
    Writer out(of_kind);
    put(out);
    expect(kind, out.written(), expected);
    for (const auto& name : of_kind) names.push_back(fmt::format("{}.{}", kind, name));
  };
  range("statement", Columns::kStatement, [&](Writer& out) { put_statement(shape, {}, hardware, out); });
  range("loop", Columns::kLoop, [&](Writer& out) { put_loop(shape, 0, hardware, out); });
  range("access", Columns::kAccess, [&](Writer& out) { put_access(shape, 0, program, out); });
  range("operation", Columns::kOperation, [&](Writer& out) { put_operation(1, out); });
  range("machine", Columns::kMachine, [&](Writer& out) { put_machine(shape, hardware, out); });
  if (columns <= Columns::count) {
    names.resize(columns);
    return names;
  }
  const KernelShape kernel;
  range("gpu", Columns::kGpu, [&](Writer& out) { put_gpu_statement(shape, program, kernel, {}, {}, out); });
  range("gpu_access", Columns::kGpuAccess, [&](Writer& out) { put_gpu_access(shape, 0, program, kernel, {}, out); });
  return names;
}

std::vector<ColumnRange> block_columns() {
  std::vector<ColumnRange> ranges;
  const auto names = loop_column_names();
  for (int64_t c = 0; c < std::ssize(names); ++c) {
    const std::string& name = names[c];
    if (!name.starts_with("statement.vector") && name != "statement.scalar" && !name.starts_with("statement.block."))
      continue;
    if (ranges.empty() || ranges.back().first + ranges.back().count != c) ranges.push_back({c, 0});
    ++ranges.back().count;
  }
  return ranges;
}

}  // namespace foretime::data
