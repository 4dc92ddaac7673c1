#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "data/frontends/ansor/replay/bound_inference.h"
#include "data/frontends/ansor/replay/replay.h"

namespace foretime::data {

/// What a step that inserts a stage makes of a DAG depends on these numbers and its text only.
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

/// The state of a replay: what Replayer keeps, and how each step changes the nest.
struct Replayer::Work {
  void start(const std::shared_ptr<const ComputeDag>& dag, LoopNest& nest);
  void apply(const ScheduleStep& step);

  void annotate(const ScheduleStep& step);
  void fuse(const ScheduleStep& step);
  void pragma(const ScheduleStep& step);
  void reorder(const ScheduleStep& step);
  void split(const ScheduleStep& step, bool inner_to_outer);  // by lengths_
  void follow_split(const ScheduleStep& step);
  void follow_fused_split(const ScheduleStep& step);
  void compute_at(const ScheduleStep& step);
  void compute_inline(const ScheduleStep& step);
  void cache_read(const ScheduleStep& step);
  void cache_write(const ScheduleStep& step);
  void rfactor(const ScheduleStep& step);

  NestStage& stage_of(int32_t stage);
  NestIterator& iterator_of(NestStage& stage, int32_t position);
  const ScheduleStep& split_step(int32_t number) const;
  int32_t add_variable(const NestVariable& made);
  int32_t add_name(const NestName& made);
  NestStage fresh_stage(const DagStage& defined);
  void retire(NestStage&& stage) { spare_.push_back(std::move(stage)); }
  static void detach(NestStage& stage) { stage.attach_stage = stage.attach_iterator = stage.attach_order = -1; }
  /// Attachments to iterators of `stage` go where `map` sends their numbers, all at once.
  template <class Map>
  void move_attachments(int32_t stage, Map map) {
    for (NestStage& attached : nest_->stages) {
      if (attached.attach_stage == stage) attached.attach_iterator = map(attached.attach_iterator);
    }
  }
  template <class Make>
  void derive(const ScheduleStep& step, std::vector<int64_t> numbers, Make make);
  void insert_stage(int32_t place);

  LoopNest* nest_ = nullptr;
  const ScheduleSteps* schedule_ = nullptr;
  size_t number_ = 0;  // of the step being applied
  int32_t next_serial_ = 0, next_attachment_ = 0;
  std::vector<int32_t> lengths_;
  std::vector<NestIterator> reordered_;
  std::vector<NestStage> spare_;  // for their memory
  std::map<const ComputeDag*, DerivedDag> roots_;
  DerivedDag* current_ = nullptr;
  size_t kept_dags_ = 0, inserted_ = 0;
  BoundInference inference_;
};

}  // namespace foretime::data
