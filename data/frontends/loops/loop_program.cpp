#include "data/frontends/loops/loop_program.h"

#include <algorithm>

namespace foretime::data {

std::optional<Arithmetic> arithmetic_of(ExpressionKind kind) {
  using Kind = ExpressionKind;
  if (kind == Kind::add || kind == Kind::subtract) return Arithmetic::add;
  if (kind == Kind::multiply) return Arithmetic::multiply;
  if (kind >= Kind::divide && kind <= Kind::floor_modulo) return Arithmetic::divide;
  if (kind == Kind::minimum || kind == Kind::maximum) return Arithmetic::minmax;
  if (kind == Kind::select) return Arithmetic::select;
  if (kind == Kind::call) return Arithmetic::call;
  if (kind == Kind::cast) return Arithmetic::cast;
  return std::nullopt;
}

void LoopProgram::clear() {
  statements.clear();
  loops.clear();
  accesses.clear();
  strides.clear();
  buffers.clear();
  kernels.clear();
  lanes.clear();
}

std::span<const int64_t> LoopProgram::lanes_of(const ProgramStatement& statement, const ProgramAccess& access,
                                               int64_t warp_size) const {
  const size_t place = &access - accesses.data();
  const int64_t threads = kernels[statement.kernel].block_threads();
  const size_t count = std::min<int64_t>({warp_size, threads, kMostLanes});
  return std::span(lanes).subspan(place * kMostLanes, count);
}

double LoopProgram::iterations(const ProgramStatement& statement) const {
  double product = 1.0;
  for (const ProgramLoop& loop : loops_of(statement)) product *= loop.extent;
  return product;
}

namespace {

/// The statement that sets what `update` starts from; null if there is none before it.
const ProgramStatement* initial_of(const LoopProgram& program, const ProgramStatement& update) {
  const ProgramStatement* found = nullptr;
  const int32_t buffer = program.accesses[update.first_access].buffer;
  for (const ProgramStatement& statement : program.statements) {
    if (&statement == &update) break;
    if (statement.initial && program.accesses[statement.first_access].buffer == buffer) found = &statement;
  }
  return found;
}

constexpr int64_t kDeepestUnrolling = 8;  // TVM's auto_max_depth

/// Decides what is unrolled of the loops that statements share, from the innermost on.
class Unrolling {
 public:
  explicit Unrolling(LoopProgram& program) : program_(program) {}
  void run() { visit(0, program_.statements.size(), 0); }

 private:
  struct Body {
    int64_t steps = 0;       // assignments, unrolled loops multiplied out
    int64_t unrolled = 0;    // unrolled loops inside of each other
    bool has_loops = false;  // some loops are not unrolled
  };

  ProgramLoop& loop(size_t statement, uint32_t depth) {
    return program_.loops[program_.statements[statement].first_loop + depth];
  }

  /// Statements first … last - 1, which share their `depth` outermost loops.
  Body visit(size_t first, size_t last, uint32_t depth) {
    Body all;
    for (size_t i = first; i < last;) {
      if (program_.statements[i].loops <= depth) {
        ++all.steps;
        ++i;
        continue;
      }
      const int32_t id = loop(i, depth).id;
      size_t end = i + 1;
      while (end < last && program_.statements[end].loops > depth && loop(end, depth).id == id) ++end;
      Body body = visit(i, end, depth + 1);
      // The loop belongs to the statement that runs last in it: those before it were attached there.
      decide(loop(end - 1, depth), program_.statements[end - 1].unroll_limit, body);
      for (size_t k = i; k < end; ++k) loop(k, depth).unrolled = loop(end - 1, depth).unrolled;
      all.steps = std::min(all.steps + body.steps, kMany);
      all.unrolled = std::max(all.unrolled, body.unrolled);
      all.has_loops |= body.has_loops;
      i = end;
    }
    return all;
  }

  static void decide(ProgramLoop& loop, int64_t limit, Body& body) {
    if (loop.kind == LoopKind::vectorized) return;  // no loop any more when loops are unrolled
    const int64_t steps = std::min(body.steps, kMany) * std::min(loop.extent, kMany);
    const bool automatic =
        loop.kind == LoopKind::serial && !body.has_loops && body.unrolled <= kDeepestUnrolling && steps <= limit;
    loop.unrolled = automatic || loop.kind == LoopKind::unrolled;
    if (loop.unrolled) {
      body.steps = std::min(steps, kMany);
      ++body.unrolled;
    } else {
      body.has_loops = true;
    }
  }

  static constexpr int64_t kMany = int64_t{1} << 30;
  LoopProgram& program_;
};

}  // namespace

void LoopProgram::finish() {
  for (const ProgramStatement& statement : statements) {
    const auto written = strides_of(statement, accesses[statement.first_access]);
    const ProgramStatement* initial = statement.update ? initial_of(*this, statement) : nullptr;
    for (uint32_t i = 0; i < statement.loops; ++i) {
      ProgramLoop& loop = loops[statement.first_loop + i];
      // Whether a loop around the initial assignment restarts the reduction in each iteration.
      const bool around = initial != nullptr && i < initial->loops && loops[initial->first_loop + i].id == loop.id;
      loop.reduction = statement.update && written[i].distinct == 1.0 && !around;
    }
  }
  Unrolling(*this).run();
  for (const ProgramStatement& writer : statements) {
    ProgramBuffer& buffer = buffers[accesses[writer.first_access].buffer];
    buffer.written = true;
  }
  for (const ProgramStatement& reader : statements) {
    const auto touched = accesses_of(reader);
    for (const ProgramAccess& load : touched.subspan(1)) {
      ProgramBuffer& buffer = buffers[load.buffer];
      if (buffer.written && load.buffer != touched[0].buffer) buffer.temporary = true;
    }
  }
}

}  // namespace foretime::data
