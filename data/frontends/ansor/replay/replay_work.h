#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "data/frontends/ansor/dag/compute_dag.h"
#include "data/frontends/ansor/replay/loop_nest.h"
#include "data/frontends/ansor/replay/replay.h"

namespace foretime::data {

/// The DAG with a stage after `stage` that copies it into memory of `scope`; the stages `readers` (numbers of `dag`)
/// read the copy. Throws DataError where a reader does not read the stage.
ComputeDag with_cache_read(const ComputeDag& dag, int32_t stage, std::string_view scope,
                           std::span<const int32_t> readers);

/// The DAG with a stage before `stage` that does its work in memory of `scope`; `stage` becomes a copy of it.
ComputeDag with_cache_write(const ComputeDag& dag, int32_t stage, std::string_view scope);

/// The DAG with a stage before `stage` that has the reduction variable `variable` (an iterator of the stage in `nest`)
/// as the spatial axis `position` (negative: from the end) and does the rest of the reduction; `stage` becomes the
/// reduction over it.
ComputeDag with_rfactor(const LoopNest& nest, int32_t stage, int32_t variable, int32_t position);

/// Finds which values the loop variables of a nest take, as te::InferBound does: from the outputs backwards, each stage
/// computes what its readers need inside of the loop that it is attached to. Keeps memory from nest to nest.
class BoundInference {
 public:
  BoundInference();
  ~BoundInference();

  /// Sets minimum and extent of all variables of `nest`. Throws DataError where a stage is attached outside of the
  /// loops of its readers, or to a stage that has no loops.
  void infer(LoopNest& nest);

 private:
  struct Work;
  std::unique_ptr<Work> work_;
};

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
