// Steps that attach, inline and insert stages.
#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "data/frontends/ansor/replay/replay_work.h"

namespace foretime::data {
namespace {

constexpr size_t kMostInserted = 64;  // stages, by one schedule

}  // namespace

void Replayer::Work::compute_at(const ScheduleStep& step) {
  NestStage& stage = stage_of(step.stage);
  NestStage& target = stage_of(step.source);
  if (&stage == &target) throw DataError("attached to itself, expected another stage");
  stage.attach_variable = iterator_of(target, step.count).variable;
  stage.compute_at = ComputeAt::iterator;
  stage.attach_stage = step.source;
  stage.attach_iterator = step.count;
  stage.attach_order = next_attachment_++;
}

void Replayer::Work::compute_inline(const ScheduleStep& step) {
  NestStage& stage = stage_of(step.stage);
  const DagStage& defined = nest_->dag->stages[static_cast<size_t>(step.stage)];
  for (const NestStage& attached : nest_->stages) {
    if (attached.attach_stage == step.stage) throw DataError("inlined, though stages are attached to it");
  }
  if (defined.input || !defined.reduce_axes.empty() || defined.output)
    throw DataError(fmt::format("inlined, though it is {}", defined.input    ? "an input"
                                                            : defined.output ? "an output"
                                                                             : "a reduction"));
  stage.compute_at = ComputeAt::inlined;
  detach(stage);
}

/// A stage is put before `place`; the stage there, and all after it, move by one.
void Replayer::Work::insert_stage(int32_t place) {
  for (NestStage& stage : nest_->stages) {
    if (stage.attach_stage >= place) ++stage.attach_stage;
  }
  const auto position = static_cast<size_t>(place);
  nest_->stages.insert(nest_->stages.begin() + place, fresh_stage(nest_->dag->stages[position]));
}

/// The nest's DAG becomes what `make` makes of it, which depends on `numbers` and the step's text only.
template <class Make>
void Replayer::Work::derive(const ScheduleStep& step, std::vector<int64_t> numbers, Make make) {
  stage_of(step.stage);
  if (++inserted_ > kMostInserted) throw DataError(fmt::format("expected at most {} inserted stages", kMostInserted));
  DerivedDag& derived = current_->made[{std::move(numbers), std::string(schedule_->text_of(step))}];
  if (!derived.dag) {
    derived.dag = std::make_shared<const ComputeDag>(make(*nest_->dag));
    ++kept_dags_;
  }
  current_ = &derived;
  nest_->dag = derived.dag;
}

void Replayer::Work::cache_read(const ScheduleStep& step) {
  const auto readers = schedule_->list(step);
  std::vector<int64_t> numbers = {static_cast<int64_t>(step.kind), step.stage};
  numbers.insert(numbers.end(), readers.begin(), readers.end());
  derive(step, std::move(numbers),
         [&](const ComputeDag& dag) { return with_cache_read(dag, step.stage, schedule_->text_of(step), readers); });
  insert_stage(step.stage + 1);
}

void Replayer::Work::cache_write(const ScheduleStep& step) {
  const NestStage& stage = stage_of(step.stage);
  if (nest_->dag->stages[static_cast<size_t>(step.stage)].input)
    throw DataError("an input, expected a stage that computes");
  if (!stage.relations.empty()) throw DataError("cached after splits or fusions of it, expected it before them");
  derive(step, {static_cast<int64_t>(step.kind), step.stage},
         [&](const ComputeDag& dag) { return with_cache_write(dag, step.stage, schedule_->text_of(step)); });
  insert_stage(step.stage);
  const auto place = static_cast<size_t>(step.stage) + 1;
  std::swap(nest_->stages[place], spare_.emplace_back());
  nest_->stages[place] = fresh_stage(nest_->dag->stages[place]);
}

void Replayer::Work::rfactor(const ScheduleStep& step) {
  NestStage& stage = stage_of(step.stage);
  const NestIterator factored = iterator_of(stage, step.iterator);
  if (number_ == 0 || schedule_->steps[number_ - 1].kind != StepKind::split ||
      schedule_->steps[number_ - 1].stage != step.stage)
    throw DataError("expected it just after SP of the same stage");
  const auto attached_to = std::any_of(nest_->stages.begin(), nest_->stages.end(),
                                       [&](const NestStage& other) { return other.attach_stage == step.stage; });
  if (attached_to) throw DataError("rfactor of a stage that others are attached to");
  std::vector<int64_t> numbers = {static_cast<int64_t>(step.kind), step.stage, factored.variable, step.source};
  for (const NestRelation& relation : stage.relations) {
    for (const int64_t number : {static_cast<int64_t>(relation.kind), int64_t{relation.parent}, int64_t{relation.outer},
                                 int64_t{relation.inner}, relation.factor})
      numbers.push_back(number);
  }
  for (const NestIterator& iterator : stage.iterators) numbers.push_back(iterator.variable);
  derive(step, std::move(numbers),
         [&](const ComputeDag&) { return with_rfactor(*nest_, step.stage, factored.variable, step.source); });
  insert_stage(step.stage);
  const auto place = static_cast<size_t>(step.stage) + 1;
  NestStage old = std::move(nest_->stages[place]);
  nest_->stages[place] = fresh_stage(nest_->dag->stages[place]);
  NestStage& made = nest_->stages[place];
  made.compute_at = old.compute_at;
  made.attach_stage = old.attach_stage;
  made.attach_iterator = old.attach_iterator;
  made.attach_order = old.attach_order;
  made.attach_variable = old.attach_variable;
  retire(std::move(old));
}

}  // namespace foretime::data
