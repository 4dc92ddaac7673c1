#include "data/frontends/loops/nest_program.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/index_range.h"
#include "data/frontends/ansor/dag/expression.h"

namespace foretime::data {
namespace {

constexpr size_t kMostExpressions = 100000;
constexpr int64_t kInsertTransform = 1, kPreTransformed = 2;  // TuningRecord::layout_rewrite

LoopKind loop_kind(Annotation annotation) {
  switch (annotation) {
    case Annotation::parallel: return LoopKind::parallel;
    case Annotation::vectorize: return LoopKind::vectorized;
    case Annotation::unroll: return LoopKind::unrolled;
    default: return binds_thread(annotation) ? LoopKind::thread : LoopKind::serial;
  }
}

constexpr int64_t kMostThreads = 1 << 20;  // limit in one dimension of a block: far more than any GPU has

bool is_bound(Annotation annotation) {
  const ThreadAxis axis = thread_axis(annotation);
  return axis == ThreadAxis::block || axis == ThreadAxis::thread;
}

int32_t element_bytes(const std::string& type) {
  const size_t digits = type.find_first_of("0123456789");
  if (digits == std::string::npos) return 4;
  int32_t bits = 0;
  for (size_t i = digits; i < type.size() && type[i] >= '0' && type[i] <= '9' && bits < 1000; ++i)
    bits = bits * 10 + (type[i] - '0');
  return std::max(1, bits / 8);
}

/// Returns whether the stage's buffer is as large as the part that its readers need (in one iteration of the loop that
/// it is attached to); buffers from outside have their full shape.
bool is_realised(const DagStage& definition, const NestStage& stage) {
  return !definition.input && !definition.output && stage.compute_at != ComputeAt::inlined &&
         stage.axes.size() >= definition.shape.size();
}

}  // namespace

void NestProgram::read(LoopNest& nest, const TuningRecord& record, LoopProgram& program) {
  program.clear();
  transformed_ = -1;
  open_.clear();
  unroll_limit_ = 0;
  kernel_ = blocks_around_ = threads_around_ = 0;
  find_attached(nest);
  find_kernels(nest, program);
  rewrites_ =
      !program.is_gpu() && (record.layout_rewrite == kInsertTransform || record.layout_rewrite == kPreTransformed);
  set_buffers(nest, program);
  for (size_t stage = 0; stage < nest.stages.size(); ++stage) {
    if (nest.stages[stage].compute_at != ComputeAt::root || nest.dag->stages[stage].input) continue;
    if (program.is_gpu()) kernel_ = kernel_of_[stage];
    emit(nest, stage, program);
  }
  if (transformed_ >= 0 && record.layout_rewrite == kInsertTransform) insert_transform(program);
  program.finish();
}

void NestProgram::find_attached(const LoopNest& nest) {
  if (attached_.size() < nest.stages.size()) attached_.resize(nest.stages.size());
  for (size_t stage = 0; stage < nest.stages.size(); ++stage) attached_[stage].clear();
  for (size_t stage = 0; stage < nest.stages.size(); ++stage) {  // ascending: a producer runs before its readers
    const NestStage& s = nest.stages[stage];
    if (s.compute_at != ComputeAt::iterator) continue;
    attached_[s.attach_stage].emplace_back(s.attach_iterator, stage);
  }
}

void NestProgram::find_kernels(LoopNest& nest, LoopProgram& program) {
  const size_t stages = nest.stages.size();
  kernel_of_.assign(stages, -1);
  const auto runs = [&](size_t stage) {
    return !nest.dag->stages[stage].input && nest.stages[stage].compute_at != ComputeAt::inlined;
  };
  bool bound = false;
  for (size_t stage = 0; stage < stages; ++stage) {
    if (!runs(stage)) continue;
    for (const NestIterator& iterator : nest.stages[stage].iterators) bound |= is_bound(iterator.annotation);
  }
  if (!bound) return;
  for (size_t stage = 0; stage < stages; ++stage) {
    if (!runs(stage)) continue;
    size_t root = stage;
    for (size_t steps = 0; nest.stages[root].compute_at == ComputeAt::iterator && steps < stages; ++steps)
      root = nest.stages[root].attach_stage;
    if (kernel_of_[root] < 0) {
      kernel_of_[root] = program.kernels.size();
      program.kernels.emplace_back();
    }
    kernel_of_[stage] = kernel_of_[root];
    ProgramKernel& kernel = program.kernels[kernel_of_[stage]];
    int64_t virtual_threads = 1;
    std::array<int64_t, 3> blocks = {1, 1, 1};
    for (const NestIterator& iterator : nest.stages[stage].iterators) {
      const int64_t extent = std::max<int64_t>(1, nest.pool.bounds(nest.variable(iterator).extent).high);
      const size_t d = thread_dimension(iterator.annotation);
      switch (thread_axis(iterator.annotation)) {
        case ThreadAxis::virtual_thread: virtual_threads = checked_multiply(virtual_threads, extent); break;
        case ThreadAxis::block: blocks[d] = checked_multiply(blocks[d], extent); break;
        case ThreadAxis::thread: kernel.threads[d] = std::max(kernel.threads[d], std::min(extent, kMostThreads)); break;
        case ThreadAxis::none: break;
      }
    }
    kernel.virtual_threads = std::max(kernel.virtual_threads, virtual_threads);
    kernel.blocks = std::max(kernel.blocks, checked_multiply(blocks[0], checked_multiply(blocks[1], blocks[2])));
  }
}

void NestProgram::set_scope(const LoopNest& nest, size_t stage, LoopProgram& program) const {
  const std::string& said = nest.dag->stages[stage].scope;
  BufferScope scope = BufferScope::global;
  if (!said.empty()) {
    if (!said.starts_with("global")) scope = said.starts_with("shared") ? BufferScope::shared : BufferScope::local;
  } else if (threads_around_ > 0) {
    scope = BufferScope::local;
  } else if (blocks_around_ > 0) {
    scope = BufferScope::shared;
  }
  for (size_t output = 0; output < nest.dag->stages[stage].outputs(); ++output)
    program.buffers[buffer_of_[nest.dag->memory(stage, output)]].scope = scope;
}

void NestProgram::set_buffers(const LoopNest& nest, LoopProgram& program) {
  if (row_major_.size() < nest.stages.size()) row_major_.resize(nest.stages.size());
  for (size_t stage = 0; stage < nest.stages.size(); ++stage) {
    const DagStage& definition = nest.dag->stages[stage];
    const NestStage& s = nest.stages[stage];
    const bool whole = !is_realised(definition, s);
    auto& strides = row_major_[stage];
    strides.assign(definition.shape.size(), 1);
    int64_t elements = 1;
    for (size_t d = definition.shape.size(); d-- > 0;) {
      strides[d] = elements;
      int64_t extent = definition.shape[d];
      if (!whole && d < definition.axes.size()) {
        const Affine& realised = nest.variables[s.axes[d]].extent;
        if (realised.constant()) extent = std::max<int64_t>(1, realised.base);
      }
      elements = checked_multiply(elements, extent);
    }
    program.buffers.push_back({.elements = elements, .element_bytes = element_bytes(definition.types.front())});
  }
  buffer_of_.assign(nest.dag->memories(), -1);
  for (size_t memory = 0; memory < buffer_of_.size(); ++memory) {
    const size_t stage = nest.dag->stage_of(memory), output = nest.dag->output_of(memory);
    const DagStage& definition = nest.dag->stages[stage];
    if (output >= definition.outputs()) continue;
    buffer_of_[memory] = (output == 0 ? stage : program.buffers.size());
    if (output == 0) continue;
    program.buffers.push_back(
        {.elements = program.buffers[stage].elements, .element_bytes = element_bytes(definition.types[output])});
  }
}

void NestProgram::emit(LoopNest& nest, size_t stage, LoopProgram& program) {
  const size_t outside = open_.size();
  const int64_t outer_limit = unroll_limit_;
  const int32_t outer_blocks = blocks_around_, outer_threads = threads_around_;
  if (program.is_gpu() && nest.stages[stage].compute_at == ComputeAt::iterator) set_scope(nest, stage, program);
  if (nest.stages[stage].auto_unroll_max_step > 0) unroll_limit_ = nest.stages[stage].auto_unroll_max_step;
  const auto& iterators = nest.stages[stage].iterators;
  const bool reduces = !nest.dag->stages[stage].reduce_axes.empty();
  const auto add_statements = [&](bool initial) {
    for (size_t output = 0; output < nest.dag->stages[stage].outputs(); ++output)
      add_statement(nest, stage, output, initial, program);
  };
  const auto is_reduction = [&](size_t i) { return iterators[i].kind == IteratorKind::reduce; };
  const auto open = [&](size_t i, int32_t id) {
    const NestVariable& variable = nest.variable(iterators[i]);
    const ThreadAxis axis = thread_axis(iterators[i].annotation);
    blocks_around_ += axis == ThreadAxis::block;
    threads_around_ += axis == ThreadAxis::thread || axis == ThreadAxis::virtual_thread;
    const int64_t extent = nest.pool.bounds(variable.extent).high;
    if (extent <= 1) return;
    if (open_.size() == kMostStatementLoops) throw DataError("a statement in more than {} loops", kMostStatementLoops);
    open_.push_back({{.extent = extent, .kind = loop_kind(iterators[i].annotation), .id = id, .axis = axis},
                     iterators[i].variable,
                     iterators[i].annotation});
  };
  bool started = !reduces;
  for (size_t i = 0; i < iterators.size(); ++i) {
    if (!started && is_reduction(i)) {
      started = true;
      const size_t before = open_.size();
      const int32_t blocks_before = blocks_around_, threads_before = threads_around_;
      for (size_t k = i; k < iterators.size(); ++k) {
        // Loops of their own, in which the reduction starts.
        const auto id = static_cast<int32_t>(nest.variables.size()) + iterators[k].variable;
        if (!is_reduction(k)) open(k, id);
      }
      add_statements(true);
      open_.resize(before);
      blocks_around_ = blocks_before;
      threads_around_ = threads_before;
    }
    open(i, iterators[i].variable);
    for (const auto& [iterator, attached] : attached_[stage])
      if (std::cmp_equal(iterator, i)) emit(nest, attached, program);
  }
  if (!started) add_statements(true);
  add_statements(false);
  open_.resize(outside);
  unroll_limit_ = outer_limit;
  blocks_around_ = outer_blocks;
  threads_around_ = outer_threads;
}

void NestProgram::add_statement(LoopNest& nest, size_t stage, size_t output, bool initial, LoopProgram& program) {
  if (program.statements.size() == kMostStatements) throw DataError("more than {} statements", kMostStatements);
  ProgramStatement statement;
  statement.initial = initial;
  statement.update = !initial && !nest.dag->stages[stage].reduce_axes.empty();
  statement.unroll_limit = unroll_limit_;
  statement.kernel = kernel_;
  statement.first_loop = program.loops.size();
  statement.loops = open_.size();
  statement.first_access = program.accesses.size();
  index_loops_.clear();
  for (const OpenLoop& open : open_) {
    program.loops.push_back(open.loop);
    index_loops_.push_back({open.variable, open.loop.extent});
  }
  if (initial) {  // it reads nothing
    axis_values(nest, stage, values_);
    const auto rank = nest.dag->stages[stage].axes.size();
    accesses_.assign(1, {.memory = nest.dag->memory(stage, output),
                         .indices = {values_.begin(), values_.begin() + rank},
                         .unknown = std::vector<uint8_t>(rank, 0)});
  } else {
    stage_accesses(nest, stage, output, accesses_);
  }
  // A reduction reads what it writes: the store and this load are one access here, and `update` says so.
  for (size_t i = 0; i < accesses_.size(); ++i) {
    add_access(nest, accesses_[i], statement.loops, program);
    if (is_rewritten(nest, stage, i)) rearrange(statement, program.accesses.back(), program);
  }
  statement.accesses = std::ssize(program.accesses) - statement.first_access;
  if (!initial) count_arithmetic(nest, stage, output, statement);
  if (program.is_gpu()) drop_repeated_threads(statement, program);
  program.statements.push_back(statement);
}

void NestProgram::add_access(LoopNest& nest, const NestAccess& access, uint32_t loops, LoopProgram& program) {
  const size_t stage = nest.dag->stage_of(access.memory);
  const int32_t number = buffer_of_[access.memory];
  const ProgramBuffer& buffer = program.buffers[number];
  const NestStage& owner = nest.stages[stage];
  const auto& strides = row_major_[stage];
  Affine flat = Affine::of(0);
  for (size_t d = 0; d < access.indices.size() && d < strides.size(); ++d) {
    if (access.unknown[d]) continue;
    Affine index = access.indices[d];
    // Positions in a buffer that is one iteration's part of a stage count from where this part starts.
    if (is_realised(nest.dag->stages[stage], owner))
      index = nest.pool.subtract(index, nest.variables[owner.axes[d]].minimum);
    flat = nest.pool.add(flat, nest.pool.scale(index, strides[d]));
  }
  program.accesses.push_back({number, static_cast<uint32_t>(program.strides.size())});
  pattern_.append(nest.pool, flat, std::span(index_loops_).first(loops), buffer.elements, buffer.element_bytes,
                  program.strides);
  if (!program.is_gpu()) return;
  const size_t first = program.lanes.size();
  program.lanes.resize(first + kMostLanes, 0);
  lane_positions(nest, flat, program.kernels[kernel_], std::span(program.lanes).subspan(first));
}

void NestProgram::drop_repeated_threads(const ProgramStatement& statement, LoopProgram& program) const {
  const ProgramAccess& store = program.accesses[statement.first_access];
  const BufferScope scope = program.buffers[store.buffer].scope;
  for (size_t i = 0; i < open_.size(); ++i) {
    const Annotation bound = open_[i].annotation;
    bool repeats = false;
    if (open_[i].loop.axis == ThreadAxis::thread) {
      for (size_t k = i + 1; k < open_.size(); ++k) repeats |= open_[k].annotation == bound;
    } else if (open_[i].loop.axis == ThreadAxis::virtual_thread && scope != BufferScope::local) {
      repeats = true;
      for (uint32_t a = 0; a < statement.accesses; ++a)
        repeats &= program.strides[program.accesses[statement.first_access + a].first + i].distinct <= 1.0;
    }
    if (repeats) program.loops[statement.first_loop + i].extent = 1;
  }
}

bool NestProgram::is_rewritten(const LoopNest& nest, size_t stage, size_t access) const {
  if (!rewrites_ || access != 2 || accesses_.size() != 3) return false;  // a write and two reads
  const ComputeDag& dag = *nest.dag;
  if (!dag.stages[dag.stage_of(accesses_[2].memory)].input) return false;
  const std::string& tag = dag.stages[stage].tag;
  return tag == "conv2d_nhwc" || tag == "conv3d_ndhwc" || tag == "dense" || tag == "batch_matmul" ||
         dag.stages[stage].name.starts_with("bgemm");
}

void NestProgram::rearrange(const ProgramStatement& statement, const ProgramAccess& access, LoopProgram& program) {
  const size_t loops = statement.loops;
  transform_loops_.clear();
  transform_from_.clear();
  transformed_ = access.buffer;
  const ProgramBuffer& buffer = program.buffers[access.buffer];
  for (size_t i = 0; i < loops; ++i) {
    const LoopAccess& from = program.strides[access.first + i];
    if (from.distinct <= 1.0) continue;
    transform_loops_.push_back(
        {.extent = static_cast<int64_t>(from.distinct), .id = program.loops[statement.first_loop + i].id});
    transform_from_.push_back(from);
  }
  // Each loop that moves through the weights becomes a dimension of theirs, in the order of the loops.
  double inside = 1.0;
  for (size_t i = loops; i-- > 0;) {
    LoopAccess& step = program.strides[access.first + i];
    if (step.stride != 0) step.stride = inside;
    inside *= step.distinct;
    step.footprint = std::min<double>(inside, buffer.elements);
    step.lines = std::max(1.0, step.footprint * buffer.element_bytes / kLineBytes);
  }
}

void NestProgram::insert_transform(LoopProgram& program) {
  ProgramBuffer rearranged = program.buffers[transformed_];
  const int32_t target = program.buffers.size();
  for (ProgramAccess& access : program.accesses)
    if (access.buffer == transformed_) access.buffer = target;
  ProgramStatement statement;
  statement.first_loop = program.loops.size();
  statement.loops = transform_loops_.size();
  statement.first_access = program.accesses.size();
  statement.accesses = 2;
  program.accesses.push_back({target, static_cast<uint32_t>(program.strides.size())});
  program.accesses.push_back({transformed_, static_cast<uint32_t>(program.strides.size() + transform_loops_.size())});
  program.buffers.push_back(rearranged);
  if (!transform_loops_.empty()) transform_loops_.front().kind = LoopKind::parallel;
  std::vector<LoopAccess> to(transform_loops_.size());
  double inside = 1.0;
  for (size_t i = to.size(); i-- > 0;) {
    to[i].stride = inside;
    to[i].distinct = transform_loops_[i].extent;
    inside *= to[i].distinct;
    to[i].footprint = std::min<double>(inside, rearranged.elements);
    to[i].lines = std::max(1.0, to[i].footprint * rearranged.element_bytes / kLineBytes);
  }
  for (ProgramLoop& loop : transform_loops_) loop.id = -1 - loop.id;  // loops of their own
  program.loops.insert(program.loops.end(), transform_loops_.begin(), transform_loops_.end());
  program.strides.insert(program.strides.end(), to.begin(), to.end());
  program.strides.insert(program.strides.end(), transform_from_.begin(), transform_from_.end());
  program.statements.insert(program.statements.begin(), statement);
}

void NestProgram::count_arithmetic(const LoopNest& nest, size_t stage, size_t output, ProgramStatement& statement) {
  const DagStage& definition = nest.dag->stages[stage];
  expressions_ = 0;
  if (statement.update && !definition.combine.empty()) {
    combined_ = stage;
    count_expression(nest, definition.combine[output], false, statement);
    combined_.reset();
    return;
  }
  if (statement.update) {
    const bool sums = definition.combiner == "sum" || definition.combiner.empty();
    ++statement.arithmetic[index_of(sums ? Arithmetic::add : Arithmetic::minmax)];
  }
  if (!definition.bodies.empty()) count_expression(nest, definition.bodies[output], false, statement);
}

void NestProgram::count_expression(const LoopNest& nest, int32_t expression, bool compared,
                                   ProgramStatement& statement) {
  if (++expressions_ > kMostExpressions) throw DataError("a statement of more than {} operations", kMostExpressions);
  const ExpressionTree& tree = nest.dag->expressions;
  const ExpressionTree::Node& node = tree.node(expression);
  if (node.kind == ExpressionKind::load) {  // its indices are no arithmetic on values
    if (node.target < 0) return;
    const size_t source = node.target;
    const auto& bodies = nest.dag->stages[source].bodies;
    if (nest.stages[source].compute_at == ComputeAt::inlined && !bodies.empty())
      count_expression(nest, bodies[tree.output(expression)], compared, statement);
    return;
  }
  if (node.kind == ExpressionKind::variable && combined_) {
    const DagStage& definition = nest.dag->stages[*combined_];
    const size_t operand = node.target;
    if (operand < definition.outputs() || definition.bodies.empty()) return;
    const auto combined = std::exchange(combined_, std::nullopt);
    count_expression(nest, definition.bodies[operand - definition.outputs()], compared, statement);
    combined_ = combined;
    return;
  }
  auto kind = arithmetic_of(node.kind);
  if (kind == Arithmetic::call && tree.name(expression).ends_with("if_then_else")) kind = Arithmetic::select;
  if (kind && !compared) ++statement.arithmetic[index_of(*kind)];
  for (const int32_t child : tree.children(expression))
    count_expression(nest, child, compared || is_condition(node.kind), statement);
}

void RecordProgram::read(const std::shared_ptr<const ComputeDag>& dag, const TuningRecord& record,
                         LoopProgram& program) {
  replayer_.replay(dag, record.schedule, nest_);
  statements_.read(nest_, record, program);
}

}  // namespace foretime::data
