#include "data/frontends/ansor/replay/replay.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/index_range.h"
#include "base/numbers.h"
#include "data/frontends/ansor/dag/expression.h"
#include "data/frontends/ansor/replay/replay_work.h"

// Steps that attach, inline and insert stages.
namespace foretime::data {

/// Identifies a step that inserts a stage; the resulting DAG depends only on these numbers and the text.
struct Insertion {
  std::vector<int64_t> numbers;
  std::string text;
  bool operator<(const Insertion& other) const { return std::tie(numbers, text) < std::tie(other.numbers, other.text); }
};

/// A DAG with those that were made of it.
struct DerivedDag {
  std::shared_ptr<const ComputeDag> dag;
  std::map<Insertion, DerivedDag> made;
};

namespace {

constexpr size_t kMostInserted = 64;  // stages, by one schedule

constexpr size_t kMostIterators = 512;    // limit for one stage
constexpr size_t kMostVariables = 16384;  // limit for one nest
constexpr size_t kKeptDags = 512;         // DAGs with inserted stages

}  // namespace

/// The state of a replay: what Replayer keeps, and how each step changes the nest.
struct Replayer::Work {
  void start(const std::shared_ptr<const ComputeDag>& dag, LoopNest& nest) {
    nest_ = &nest;
    for (NestStage& stage : nest.stages) retire(std::move(stage));
    nest.stages.clear();
    nest.variables.clear();
    nest.pool.clear();
    next_serial_ = 0;
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
  void apply(const ScheduleStep& step) {
    using Apply = void (Work::*)(const ScheduleStep&);
    static constexpr Apply kApply[kStepKinds] = {// by StepKind
                                                 &Work::annotate,
                                                 &Work::fuse,
                                                 &Work::pragma,
                                                 &Work::reorder,
                                                 &Work::split_as_said,
                                                 &Work::follow_split,
                                                 &Work::follow_fused_split,
                                                 &Work::storage_align,
                                                 &Work::compute_at,
                                                 &Work::compute_inline,
                                                 &Work::compute_root,
                                                 &Work::cache_read,
                                                 &Work::cache_write,
                                                 &Work::rfactor};
    (this->*kApply[index_of(step.kind)])(step);
  }
  void split_as_said(const ScheduleStep& step) {
    check_length(step);
    const auto lengths = schedule_->list(step);
    lengths_.assign(lengths.begin(), lengths.end());
    split(step, step.inner_to_outer);
  }
  /// A split names the length of what it splits. Of an axis that no step changed it is known.
  void check_length(const ScheduleStep& step) {
    const NestIterator& whole = iterator_of(stage_of(step.stage), step.iterator);
    const NestVariable& variable = nest_->variables[whole.variable];
    if (step.extent <= 0 || variable.origin != NestVariable::Origin::axis) return;
    const DagAxis& axis = nest_->dag->stages[step.stage].axis(variable.first);
    if (axis.symbolic < 0 && axis.extent != step.extent)
      throw DataError("splits {} iterations of {}, expected {}", step.extent, axis.name, axis.extent);
  }
  void storage_align(const ScheduleStep& step) {
    iterator_of(stage_of(step.stage), step.iterator);
    stage_of(step.stage).storage_offset = step.extent;
  }
  void compute_root(const ScheduleStep& step) {
    NestStage& stage = stage_of(step.stage);
    stage.compute_at = ComputeAt::root;
    detach(stage);
  }
  void annotate(const ScheduleStep& step) {
    NestIterator& iterator = iterator_of(stage_of(step.stage), step.iterator);
    if (iterator.annotation != Annotation::none)
      throw DataError("iterator {}: has {}, expected no annotation", step.iterator,
                      annotation_name(iterator.annotation));
    iterator.annotation = static_cast<Annotation>(step.source);
    if (binds_thread(iterator.annotation)) nest_->variables[iterator.variable].thread = iterator.annotation;
  }
  void fuse(const ScheduleStep& step) {
    NestStage& stage = stage_of(step.stage);
    const auto positions = schedule_->list(step);
    NestIterator fused;
    if (positions.empty()) {
      if (!stage.iterators.empty())
        throw DataError("fuses no iterators, expected at least one, since the stage has some");
      fused.variable = add_variable({.origin = NestVariable::Origin::single, .serial = stage.serial});
      fused.kind = IteratorKind::special;
      stage.iterators.push_back(fused);
      return;
    }
    for (size_t i = 0; i < positions.size(); ++i) {
      const NestIterator& inner = iterator_of(stage, positions[i]);
      if (i == 0) {
        fused.variable = inner.variable;
        fused.kind = inner.kind;
        continue;
      }
      if (positions[i] != positions[i - 1] + 1)
        throw DataError("fuses iterator {} after {}, expected neighbours", positions[i], positions[i - 1]);
      if (inner.kind != fused.kind) fused.kind = IteratorKind::mixed;
      const int32_t outer = std::exchange(fused.variable, add_variable({.origin = NestVariable::Origin::fused,
                                                                        .serial = stage.serial,
                                                                        .first = fused.variable,
                                                                        .second = inner.variable}));
      stage.relations.push_back({NestRelation::Kind::fuse, fused.variable, outer, inner.variable, 0});
    }
    const int32_t begin = positions.front(), end = positions.back();
    for (const NestStage& attached : nest_->stages)
      if (attached.attach_stage == step.stage && attached.attach_iterator >= begin && attached.attach_iterator < end)
        throw DataError("fuses iterators that stages are attached to, expected attachments to the last fused one only");
    stage.iterators[begin] = fused;
    stage.iterators.erase(stage.iterators.begin() + begin + 1, stage.iterators.begin() + end + 1);
    move_attachments(step.stage, [&](int32_t position) {
      if (position <= begin) return position;
      return position > end ? position - end + begin : begin;
    });
  }
  void pragma(const ScheduleStep& step) {
    constexpr std::string_view kUnroll = "auto_unroll_max_step";
    NestStage& stage = stage_of(step.stage);
    const std::string_view pragma = schedule_->text_of(step);
    if (pragma == "debug_skip_region") {
      detach(stage);
      return;
    }
    const size_t dollar = pragma.find('$');
    const auto value = parse_number<int64_t>(pragma.substr(std::min(dollar, pragma.size() - 1) + 1));
    if (!pragma.starts_with(kUnroll) || dollar == std::string_view::npos || !value)
      throw DataError("pragma '{}', expected auto_unroll_max_step$NUMBER or debug_skip_region", pragma.substr(0, 40));
    stage.unroll_variable = iterator_of(stage, step.iterator).variable;
    stage.auto_unroll_max_step = *value;
  }
  void reorder(const ScheduleStep& step) {
    NestStage& stage = stage_of(step.stage);
    const auto order = schedule_->list(step);
    if (order.size() != stage.iterators.size())
      throw DataError("{} iterators, expected all {} of the stage", order.size(), stage.iterators.size());
    reordered_.clear();
    for (const int32_t position : order) {
      NestIterator& moved = iterator_of(stage, position);
      if (moved.variable < 0) throw DataError("iterator {} occurs twice", position);
      reordered_.push_back(moved);
      moved.variable = -1;
    }
    std::ranges::copy(reordered_, stage.iterators.begin());
  }
  /// Splits an iterator by lengths_.
  void split(const ScheduleStep& step, bool inner_to_outer) {
    NestStage& stage = stage_of(step.stage);
    const NestIterator whole = iterator_of(stage, step.iterator);
    if (stage.iterators.size() + lengths_.size() > kMostIterators)
      throw DataError("found more iterators of a stage, expected at most {}", kMostIterators);
    const size_t count = lengths_.size();
    const auto begin = stage.iterators.begin() + step.iterator;
    NestIterator part = whole;
    part.annotation = Annotation::none;
    stage.iterators.insert(begin, count, part);
    // Lengths are those of inner loops, innermost last, or those of outer ones, outermost first.
    int32_t rest = whole.variable;
    for (size_t i = 0; i < count; ++i) {
      const size_t place = inner_to_outer ? count - 1 - i : i;
      if (lengths_[place] <= 0)
        throw DataError("split length number {} (from 0) is not set, expected a complete schedule", place);
      using Origin = NestVariable::Origin;
      const int32_t outer = add_variable({.origin = Origin::split_outer, .serial = stage.serial, .first = rest});
      const int32_t inner = add_variable({.origin = Origin::split_inner, .serial = stage.serial, .first = rest});
      const auto kind = inner_to_outer ? NestRelation::Kind::split_factor : NestRelation::Kind::split_parts;
      stage.relations.push_back({kind, rest, outer, inner, lengths_[place]});
      const size_t position = step.iterator + place + (inner_to_outer ? 1 : 0);
      stage.iterators[position].variable = inner_to_outer ? inner : outer;
      rest = inner_to_outer ? outer : inner;
    }
    stage.iterators[step.iterator + (inner_to_outer ? 0 : count)].variable = rest;
    stage.iterators[step.iterator + count].annotation = Annotation::none;
    move_attachments(step.stage, [&](int32_t position) {
      return position >= step.iterator ? position + static_cast<int32_t>(count) : position;
    });
  }
  void follow_split(const ScheduleStep& step) {
    const auto lengths = schedule_->list(split_step(step.source));
    const size_t count = step.count;
    if (count > lengths.size() + 1)
      throw DataError("{} splits, expected at most {} as step {} has", count, lengths.size() + 1, step.source);
    lengths_.assign(lengths.begin(), lengths.begin() + count - 1);
    int64_t last = 1;
    for (size_t i = count - 1; i < lengths.size(); ++i) {
      last = checked_multiply(last, lengths[i]);
      if (last > kLargestExtent)
        throw DataError("found a split length of {}, expected at most {}", last, kLargestExtent);
    }
    lengths_.push_back(std::min<int64_t>(last, INT32_MAX));
    split(step, true);
  }
  void follow_fused_split(const ScheduleStep& step) {
    int64_t length = 1;
    const size_t level = step.source;
    for (const int32_t number : schedule_->list(step)) {
      const auto lengths = schedule_->list(split_step(number));
      if (level >= lengths.size())
        throw DataError("level {}, expected 0 to {} as step {} has", level, lengths.size() - 1, number);
      length = checked_multiply(length, lengths[level]);
      if (length > kLargestExtent)
        throw DataError("found a split length of {}, expected at most {}", length, kLargestExtent);
    }
    lengths_.assign(1, std::min<int64_t>(length, INT32_MAX));
    split(step, step.inner_to_outer);
  }
  void compute_at(const ScheduleStep& step) {
    NestStage& stage = stage_of(step.stage);
    NestStage& target = stage_of(step.source);
    if (&stage == &target) throw DataError("attached to itself, expected another stage");
    stage.attach_variable = iterator_of(target, step.count).variable;
    stage.compute_at = ComputeAt::iterator;
    stage.attach_stage = step.source;
    stage.attach_iterator = step.count;
  }
  void compute_inline(const ScheduleStep& step) {
    NestStage& stage = stage_of(step.stage);
    const DagStage& defined = nest_->dag->stages[step.stage];
    for (const NestStage& attached : nest_->stages)
      if (attached.attach_stage == step.stage) throw DataError("inlined, though stages are attached to it");
    if (defined.input || !defined.reduce_axes.empty() || defined.output)
      throw DataError("inlined, though it is {}", defined.input    ? "an input"
                                                  : defined.output ? "an output"
                                                                   : "a reduction");
    stage.compute_at = ComputeAt::inlined;
    detach(stage);
  }
  void cache_read(const ScheduleStep& step) {
    const auto readers = schedule_->list(step);
    std::vector<int64_t> numbers = {static_cast<int64_t>(step.kind), step.stage};
    numbers.insert(numbers.end(), readers.begin(), readers.end());
    derive(step, std::move(numbers),
           [&](const ComputeDag& dag) { return with_cache_read(dag, step.stage, schedule_->text_of(step), readers); });
    insert_stage(step.stage + 1);
  }
  void cache_write(const ScheduleStep& step) {
    const NestStage& stage = stage_of(step.stage);
    if (nest_->dag->stages[step.stage].input) throw DataError("found an input stage, expected one that computes");
    if (!stage.relations.empty()) throw DataError("cached after splits or fusions of it, expected it before them");
    derive(step, {static_cast<int64_t>(step.kind), step.stage},
           [&](const ComputeDag& dag) { return with_cache_write(dag, step.stage, schedule_->text_of(step)); });
    insert_stage(step.stage);
    const size_t place = step.stage + 1;
    std::swap(nest_->stages[place], spare_.emplace_back());
    nest_->stages[place] = fresh_stage(nest_->dag->stages[place]);
  }
  void rfactor(const ScheduleStep& step) {
    NestStage& stage = stage_of(step.stage);
    const NestIterator factored = iterator_of(stage, step.iterator);
    if (number_ == 0 || schedule_->steps[number_ - 1].kind != StepKind::split ||
        schedule_->steps[number_ - 1].stage != step.stage)
      throw DataError("found rfactor in another place, expected it just after a split (SP) of the same stage");
    const auto attached_to =
        std::ranges::any_of(nest_->stages, [&](const NestStage& other) { return other.attach_stage == step.stage; });
    if (attached_to) throw DataError("found stages attached to this one, expected none before rfactor");
    std::vector<int64_t> numbers = {static_cast<int64_t>(step.kind), step.stage, factored.variable, step.source};
    for (const NestRelation& relation : stage.relations)
      for (const int64_t number : {static_cast<int64_t>(relation.kind), int64_t{relation.parent},
                                   int64_t{relation.outer}, int64_t{relation.inner}, relation.factor})
        numbers.push_back(number);
    for (const NestIterator& iterator : stage.iterators) numbers.push_back(iterator.variable);
    derive(step, std::move(numbers),
           [&](const ComputeDag&) { return with_rfactor(*nest_, step.stage, factored.variable, step.source); });
    insert_stage(step.stage);
    const size_t place = step.stage + 1;
    NestStage old = std::exchange(nest_->stages[place], fresh_stage(nest_->dag->stages[place]));
    NestStage& made = nest_->stages[place];
    made.compute_at = old.compute_at;
    made.attach_stage = old.attach_stage;
    made.attach_iterator = old.attach_iterator;
    made.attach_variable = old.attach_variable;
    retire(std::move(old));
  }

  NestStage& stage_of(int32_t stage) {
    if (stage < 0 || stage >= std::ssize(nest_->stages))
      throw DataError("stage {}, expected 0 to {}", stage, nest_->stages.size() - 1);
    return nest_->stages[stage];
  }
  NestIterator& iterator_of(NestStage& stage, int32_t position) {
    if (position < 0 || position >= std::ssize(stage.iterators))
      throw DataError("iterator {}, expected one of the stage's {}", position, stage.iterators.size());
    return stage.iterators[position];
  }
  const ScheduleStep& split_step(int32_t number) const {
    if (number < 0 || std::cmp_greater_equal(number, number_))
      throw DataError("follows step {}, expected one before it", number);
    const ScheduleStep& followed = schedule_->steps[number];
    if (followed.kind != StepKind::split)
      throw DataError("follows step {} ({}), expected SP", number, step_name(followed.kind));
    return followed;
  }
  int32_t add_variable(const NestVariable& made) {
    if (nest_->variables.size() == kMostVariables)
      throw DataError("found more loop variables, expected at most {}", kMostVariables);
    nest_->variables.push_back(made);
    return std::ssize(nest_->variables) - 1;
  }
  NestStage fresh_stage(const DagStage& defined) {
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
      stage.axes.push_back(add_variable({.serial = stage.serial, .first = static_cast<int32_t>(i)}));
      const auto kind = i < defined.axes.size() ? IteratorKind::spatial : IteratorKind::reduce;
      stage.iterators.push_back({.variable = stage.axes.back(), .kind = kind});
    }
    return stage;
  }
  void retire(NestStage&& stage) { spare_.push_back(std::move(stage)); }
  static void detach(NestStage& stage) { stage.attach_stage = stage.attach_iterator = -1; }
  /// Attachments to iterators of `stage` go where `map` sends their numbers, all at once.
  template <class Map>
  void move_attachments(int32_t stage, Map map) {
    for (NestStage& attached : nest_->stages)
      if (attached.attach_stage == stage) attached.attach_iterator = map(attached.attach_iterator);
  }
  /// The nest's DAG becomes what `make` makes of it, which depends on `numbers` and the step's text only.
  template <class Make>
  void derive(const ScheduleStep& step, std::vector<int64_t> numbers, Make make) {
    stage_of(step.stage);
    if (++inserted_ > kMostInserted) throw DataError("found more inserted stages, expected at most {}", kMostInserted);
    DerivedDag& derived = current_->made[{std::move(numbers), std::string(schedule_->text_of(step))}];
    if (!derived.dag) {
      derived.dag = std::make_shared<const ComputeDag>(make(*nest_->dag));
      ++kept_dags_;
    }
    current_ = &derived;
    nest_->dag = derived.dag;
  }
  /// A stage is put before `place`; the stage there, and all after it, move by one.
  void insert_stage(int32_t place) {
    for (NestStage& stage : nest_->stages)
      if (stage.attach_stage >= place) ++stage.attach_stage;
    const size_t position = place;
    nest_->stages.insert(nest_->stages.begin() + place, fresh_stage(nest_->dag->stages[position]));
  }

  LoopNest* nest_ = nullptr;
  const ScheduleSteps* schedule_ = nullptr;
  size_t number_ = 0;  // index of the current step
  int32_t next_serial_ = 0;
  std::vector<int32_t> lengths_;
  std::vector<NestIterator> reordered_;
  std::vector<NestStage> spare_;  // kept for reuse of memory
  std::map<const ComputeDag*, DerivedDag> roots_;
  DerivedDag* current_ = nullptr;
  size_t kept_dags_ = 0, inserted_ = 0;
  BoundInference inference_;
};

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
      throw DataError("step {} ({} of stage {}): {}", work_->number_, step_name(step.kind), step.stage, error.what());
    }
  }
  work_->inference_.infer(nest);
}

}  // namespace foretime::data
