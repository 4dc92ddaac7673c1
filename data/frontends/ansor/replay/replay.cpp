#include "data/frontends/ansor/replay/replay.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "data/frontends/ansor/dag/checked.h"
#include "data/frontends/ansor/replay/replay_work.h"

namespace foretime::data {
namespace {

constexpr size_t kMostIterators = 512;    // of a stage
constexpr size_t kMostVariables = 16384;  // of a nest
constexpr size_t kKeptDags = 512;         // that schedules made, with inserted stages

}  // namespace

int32_t Replayer::Work::add_variable(const NestVariable& made) {
  if (nest_->variables.size() == kMostVariables)
    throw DataError(fmt::format("expected at most {} loop variables", kMostVariables));
  nest_->variables.push_back(made);
  return static_cast<int32_t>(nest_->variables.size()) - 1;
}

int32_t Replayer::Work::add_name(const NestName& made) {
  nest_->names.push_back(made);
  return static_cast<int32_t>(nest_->names.size()) - 1;
}

NestStage Replayer::Work::fresh_stage(const DagStage& defined) {
  NestStage stage;
  if (!spare_.empty()) {
    NestStage& spare = spare_.back();
    stage.axes.swap(spare.axes);
    stage.iterators.swap(spare.iterators);
    stage.relations.swap(spare.relations);
    stage.axes.clear();
    stage.iterators.clear();
    stage.relations.clear();
    spare_.pop_back();
  }
  stage.serial = next_serial_++;
  for (size_t i = 0; i < defined.axis_count(); ++i) {
    NestVariable axis;
    axis.serial = stage.serial;
    axis.first = static_cast<int32_t>(i);
    stage.axes.push_back(add_variable(axis));
    NestIterator iterator;
    iterator.variable = stage.axes.back();
    iterator.name = add_name({.serial = stage.serial, .of = axis.first});
    iterator.kind = i < defined.axes.size() ? IteratorKind::spatial : IteratorKind::reduce;
    stage.iterators.push_back(iterator);
  }
  return stage;
}

void Replayer::Work::start(const std::shared_ptr<const ComputeDag>& dag, LoopNest& nest) {
  nest_ = &nest;
  for (NestStage& stage : nest.stages) retire(std::move(stage));
  nest.stages.clear();
  nest.variables.clear();
  nest.names.clear();
  nest.fused_names.clear();
  nest.pool.clear();
  next_serial_ = next_attachment_ = 0;
  inserted_ = 0;
  if (kept_dags_ > kKeptDags) {
    roots_.clear();
    kept_dags_ = 0;
  }
  if (current_ = &roots_[dag.get()]; !current_->dag) {
    current_->dag = dag;
    ++kept_dags_;
  }
  nest.dag = dag;
  for (const DagStage& defined : dag->stages) nest.stages.push_back(fresh_stage(defined));
}

NestStage& Replayer::Work::stage_of(int32_t stage) {
  if (stage < 0 || static_cast<size_t>(stage) >= nest_->stages.size())
    throw DataError(fmt::format("stage {}, expected 0 to {}", stage, nest_->stages.size() - 1));
  return nest_->stages[static_cast<size_t>(stage)];
}

NestIterator& Replayer::Work::iterator_of(NestStage& stage, int32_t position) {
  if (position < 0 || static_cast<size_t>(position) >= stage.iterators.size())
    throw DataError(fmt::format("iterator {}, expected one of the stage's {}", position, stage.iterators.size()));
  return stage.iterators[static_cast<size_t>(position)];
}

void Replayer::Work::annotate(const ScheduleStep& step) {
  NestIterator& iterator = iterator_of(stage_of(step.stage), step.iterator);
  if (iterator.annotation != Annotation::none)
    throw DataError(fmt::format("iterator {}: has {}, expected no annotation", step.iterator,
                                annotation_name(iterator.annotation)));
  iterator.annotation = static_cast<Annotation>(step.source);
  if (binds_thread(iterator.annotation))
    nest_->variables[static_cast<size_t>(iterator.variable)].thread = iterator.annotation;
}

void Replayer::Work::fuse(const ScheduleStep& step) {
  NestStage& stage = stage_of(step.stage);
  const auto positions = schedule_->list(step);
  NestIterator fused;
  if (positions.empty()) {
    if (!stage.iterators.empty()) throw DataError("fuses nothing, expected that of a stage without loops only");
    NestVariable single;
    single.origin = NestVariable::Origin::single;
    single.serial = stage.serial;
    fused.variable = add_variable(single);
    fused.name = add_name({.origin = NestName::Origin::single});
    fused.kind = IteratorKind::special;
    stage.iterators.push_back(fused);
    return;
  }
  NestName name{.origin = NestName::Origin::fused};
  name.begin = static_cast<uint32_t>(nest_->fused_names.size());
  name.size = static_cast<uint32_t>(positions.size());
  for (size_t i = 0; i < positions.size(); ++i) {
    const NestIterator& inner = iterator_of(stage, positions[i]);
    nest_->fused_names.push_back(inner.name);
    if (i == 0) {
      fused.variable = inner.variable;
      fused.kind = inner.kind;
      continue;
    }
    if (positions[i] != positions[i - 1] + 1)
      throw DataError(fmt::format("fuses iterator {} after {}, expected neighbours", positions[i], positions[i - 1]));
    if (inner.kind != fused.kind) fused.kind = IteratorKind::mixed;
    NestVariable pair;
    pair.origin = NestVariable::Origin::fused;
    pair.serial = stage.serial;
    pair.first = fused.variable;
    pair.second = inner.variable;
    fused.variable = add_variable(pair);
    stage.relations.push_back({NestRelation::Kind::fuse, fused.variable, pair.first, pair.second, 0});
  }
  fused.name = add_name(name);
  const int32_t begin = positions.front(), end = positions.back();
  for (const NestStage& attached : nest_->stages) {
    if (attached.attach_stage == step.stage && attached.attach_iterator >= begin && attached.attach_iterator < end)
      throw DataError("fuses iterators that stages are attached to, expected that of the last one only");
  }
  stage.iterators[static_cast<size_t>(begin)] = fused;
  stage.iterators.erase(stage.iterators.begin() + begin + 1, stage.iterators.begin() + end + 1);
  move_attachments(step.stage, [&](int32_t position) {
    if (position <= begin) return position;
    return position > end ? position - end + begin : begin;
  });
}

void Replayer::Work::pragma(const ScheduleStep& step) {
  constexpr std::string_view kUnroll = "auto_unroll_max_step";
  NestStage& stage = stage_of(step.stage);
  const std::string_view pragma = schedule_->text_of(step);
  if (pragma == "debug_skip_region") {
    detach(stage);
    return;
  }
  const size_t dollar = pragma.find('$');
  const auto number = pragma.substr(std::min(dollar, pragma.size() - 1) + 1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (!pragma.starts_with(kUnroll) || dollar == std::string_view::npos || error != std::errc() ||
      end != number.data() + number.size())
    throw DataError(
        fmt::format("pragma '{}', expected auto_unroll_max_step$NUMBER or debug_skip_region", pragma.substr(0, 40)));
  stage.unroll_variable = iterator_of(stage, step.iterator).variable;
  stage.auto_unroll_max_step = value;
}

void Replayer::Work::reorder(const ScheduleStep& step) {
  NestStage& stage = stage_of(step.stage);
  const auto order = schedule_->list(step);
  if (order.size() != stage.iterators.size())
    throw DataError(fmt::format("{} iterators, expected all {} of the stage", order.size(), stage.iterators.size()));
  reordered_.clear();
  for (const int32_t position : order) {
    NestIterator& moved = iterator_of(stage, position);
    if (moved.variable < 0) throw DataError(fmt::format("iterator {} occurs twice", position));
    reordered_.push_back(moved);
    moved.variable = -1;
  }
  std::copy(reordered_.begin(), reordered_.end(), stage.iterators.begin());
}

void Replayer::Work::split(const ScheduleStep& step, bool inner_to_outer) {
  NestStage& stage = stage_of(step.stage);
  const NestIterator whole = iterator_of(stage, step.iterator);
  if (stage.iterators.size() + lengths_.size() > kMostIterators)
    throw DataError(fmt::format("expected at most {} iterators of a stage", kMostIterators));
  const size_t count = lengths_.size();
  const auto begin = stage.iterators.begin() + step.iterator;
  NestIterator part = whole;
  part.annotation = Annotation::none;
  stage.iterators.insert(begin, count, part);
  // Lengths are those of inner loops, innermost last, or those of outer ones, outermost first.
  int32_t rest = whole.variable;
  for (size_t i = 0; i < count; ++i) {
    const size_t place = inner_to_outer ? count - 1 - i : i;
    if (lengths_[place] <= 0) throw DataError(fmt::format("length {} is open, expected a complete schedule", place));
    NestVariable made;
    made.serial = stage.serial;
    made.first = rest;
    made.origin = NestVariable::Origin::split_outer;
    const int32_t outer = add_variable(made);
    made.origin = NestVariable::Origin::split_inner;
    const int32_t inner = add_variable(made);
    const auto kind = inner_to_outer ? NestRelation::Kind::split_factor : NestRelation::Kind::split_parts;
    stage.relations.push_back({kind, rest, outer, inner, lengths_[place]});
    const size_t position = static_cast<size_t>(step.iterator) + place + (inner_to_outer ? 1 : 0);
    stage.iterators[position].variable = inner_to_outer ? inner : outer;
    rest = inner_to_outer ? outer : inner;
  }
  stage.iterators[static_cast<size_t>(step.iterator) + (inner_to_outer ? 0 : count)].variable = rest;
  for (size_t i = 0; i <= count; ++i) {
    NestIterator& made = stage.iterators[static_cast<size_t>(step.iterator) + i];
    made.annotation = Annotation::none;
    made.name = add_name({.origin = NestName::Origin::part, .of = whole.name, .part = static_cast<int32_t>(i)});
  }
  move_attachments(step.stage, [&](int32_t position) {
    return position >= step.iterator ? position + static_cast<int32_t>(count) : position;
  });
}

const ScheduleStep& Replayer::Work::split_step(int32_t number) const {
  if (number < 0 || static_cast<size_t>(number) >= number_)
    throw DataError(fmt::format("follows step {}, expected one before it", number));
  const ScheduleStep& followed = schedule_->steps[static_cast<size_t>(number)];
  if (followed.kind != StepKind::split)
    throw DataError(fmt::format("follows step {} ({}), expected SP", number, step_name(followed.kind)));
  return followed;
}

void Replayer::Work::follow_split(const ScheduleStep& step) {
  const auto lengths = schedule_->list(split_step(step.source));
  const auto count = static_cast<size_t>(step.count);
  if (count > lengths.size() + 1)
    throw DataError(
        fmt::format("{} splits, expected at most {} as step {} has", count, lengths.size() + 1, step.source));
  lengths_.assign(lengths.begin(), lengths.begin() + static_cast<std::ptrdiff_t>(count) - 1);
  int64_t last = 1;
  for (size_t i = count - 1; i < lengths.size(); ++i) {
    last = checked_multiply(last, lengths[i]);
    if (last > kLargestExtent) throw DataError(fmt::format("length {}, expected at most {}", last, kLargestExtent));
  }
  lengths_.push_back(static_cast<int32_t>(std::min<int64_t>(last, INT32_MAX)));
  split(step, true);
}

void Replayer::Work::follow_fused_split(const ScheduleStep& step) {
  int64_t length = 1;
  const auto level = static_cast<size_t>(step.source);
  for (const int32_t number : schedule_->list(step)) {
    const auto lengths = schedule_->list(split_step(number));
    if (level >= lengths.size())
      throw DataError(fmt::format("level {}, expected 0 to {} as step {} has", level, lengths.size() - 1, number));
    length = checked_multiply(length, lengths[level]);
    if (length > kLargestExtent) throw DataError(fmt::format("length {}, expected at most {}", length, kLargestExtent));
  }
  lengths_.assign(1, static_cast<int32_t>(std::min<int64_t>(length, INT32_MAX)));
  split(step, step.inner_to_outer);
}

void Replayer::Work::apply(const ScheduleStep& step) {
  switch (step.kind) {
    case StepKind::annotation:
      return annotate(step);
    case StepKind::fuse:
      return fuse(step);
    case StepKind::pragma:
      return pragma(step);
    case StepKind::reorder:
      return reorder(step);
    case StepKind::split: {
      const auto lengths = schedule_->list(step);
      lengths_.assign(lengths.begin(), lengths.end());
      return split(step, step.inner_to_outer);
    }
    case StepKind::follow_split:
      return follow_split(step);
    case StepKind::follow_fused_split:
      return follow_fused_split(step);
    case StepKind::storage_align:
      iterator_of(stage_of(step.stage), step.iterator);
      stage_of(step.stage).storage_offset = step.extent;
      return;
    case StepKind::compute_at:
      return compute_at(step);
    case StepKind::compute_inline:
      return compute_inline(step);
    case StepKind::compute_root: {
      NestStage& stage = stage_of(step.stage);
      stage.compute_at = ComputeAt::root;
      return detach(stage);
    }
    case StepKind::cache_read:
      return cache_read(step);
    case StepKind::cache_write:
      return cache_write(step);
    case StepKind::rfactor:
      return rfactor(step);
  }
}

Replayer::Replayer() : work_(std::make_unique<Work>()) {}
Replayer::~Replayer() = default;

void Replayer::replay(const std::shared_ptr<const ComputeDag>& dag, const ScheduleSteps& steps, LoopNest& nest) {
  work_->start(dag, nest);
  work_->schedule_ = &steps;
  for (work_->number_ = 0; work_->number_ < steps.steps.size(); ++work_->number_) {
    const ScheduleStep& step = steps.steps[work_->number_];
    try {
      work_->apply(step);
    } catch (const DataError& error) {
      throw DataError(
          fmt::format("step {} ({} of stage {}): {}", work_->number_, step_name(step.kind), step.stage, error.what()));
    }
  }
  work_->inference_.infer(nest);
}

}  // namespace foretime::data
