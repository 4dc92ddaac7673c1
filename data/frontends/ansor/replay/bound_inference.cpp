#include <algorithm>
#include <vector>

#include "base/error.h"
#include "data/frontends/ansor/replay/index_interval.h"
#include "data/frontends/ansor/replay/replay_work.h"

namespace foretime::data {
namespace {

constexpr int64_t kMostLoads = 100000;  // looked at for one nest: inlined stages may multiply

/// Ranks memory by the threads that share it; the numbers compare with those of threads.
enum StorageRank { kGlobal = 0, kShared = 1, kWarp = 2, kLocal = 3 };

/// 0 for blocks, 1 for threads, virtual ones too.
int thread_rank(Annotation thread) {
  const bool block = thread == Annotation::block_x || thread == Annotation::block_y || thread == Annotation::block_z;
  return block ? 0 : 1;
}

int storage_rank(const std::string& scope) {
  if (scope.starts_with("shared")) return kShared;
  if (scope.starts_with("warp")) return kWarp;
  return scope.starts_with("global") ? kGlobal : kLocal;
}

}  // namespace

struct BoundInference::Work {
  void infer(LoopNest& nest) {
    nest_ = &nest;
    loads_ = 0;
    intervals_.resize(std::max(intervals_.size(), nest.variables.size()));
    bound_.assign(nest.variables.size(), 0);
    outside_relaxed_.assign(nest.variables.size(), 0);
    passes_.assign(nest.stages.size(), 0);
    find_attachments();
    for (size_t i = nest.stages.size(); i-- > 0;) {
      if (nest.dag->stages[i].input) continue;
      infer_axes(i);
      // TVM leaves inlined stages as their steps made them.
      pass_down(nest.stages[i], nest.stages[i].compute_at != ComputeAt::inlined);
    }
  }
  /// Finds the loops around each stage. If a loop was split or fused after a stage was attached to it, the attachment
  /// moves to its innermost part, or to the fused loop if it was the innermost of those.
  void find_attachments() {
    const size_t count = nest_->stages.size();
    by_serial_.assign(count, 0);
    for (size_t i = 0; i < count; ++i) {
      const size_t serial = nest_->stages[i].serial;
      if (serial >= by_serial_.size()) by_serial_.resize(serial + 1);
      by_serial_[serial] = i;
    }
    if (paths_.size() < count) paths_.resize(count);
    for (size_t i = 0; i < count; ++i) {
      paths_[i].clear();
      nest_->stages[i].attach_loop = -1;
      size_t at = i, steps = 0;
      while (nest_->stages[at].compute_at == ComputeAt::iterator) {
        int32_t loop = nest_->stages[at].attach_variable;
        at = by_serial_[variable(loop).serial];
        const NestStage& target = nest_->stages[at];
        if (++steps > count) throw DataError("stage {}: attached to itself by way of others", i);
        if (target.compute_at == ComputeAt::inlined)
          throw DataError("stage {}: attached to stage {}, which is inlined", i, at);
        for (const NestRelation& relation : target.relations) {
          if (relation.kind == NestRelation::Kind::fuse) {
            if (relation.inner == loop) loop = relation.parent;
          } else if (relation.parent == loop) {
            loop = relation.inner;
          }
        }
        const auto found = std::ranges::find_if(
            target.iterators, [&](const NestIterator& iterator) { return iterator.variable == loop; });
        if (found == target.iterators.end())
          throw DataError("stage {}: attached to a loop of stage {} that was fused away", i, at);
        if (paths_[i].empty()) nest_->stages[i].attach_loop = loop;
        for (auto around = found;; --around) {
          paths_[i].push_back(around->variable);
          if (around == target.iterators.begin()) break;
        }
      }
    }
  }
  void infer_axes(size_t stage) {
    const DagStage& defined = nest_->dag->stages[stage];
    const NestStage& loops = nest_->stages[stage];
    const size_t rank = defined.axes.size();
    known_.assign(rank, 0);
    subtracted_.assign(rank, Affine::of(0));
    needed_.resize(rank);
    if (defined.output) {
      if (loops.compute_at != ComputeAt::root) throw DataError("stage {}: an output, expected it at root", stage);
    } else if (loops.compute_at != ComputeAt::inlined) {
      rank_ = kGlobal;
      if (!defined.scope.empty()) {
        rank_ = storage_rank(defined.scope);
      } else {
        for (const int32_t id : paths_[stage]) {
          const Annotation thread = variable(id).thread;
          if (thread != Annotation::none) rank_ = std::max<int>(rank_, thread_rank(thread) == 0 ? kShared : kLocal);
        }
      }
      for (size_t reader = stage + 1; reader < nest_->stages.size(); ++reader) {
        const auto& reads = nest_->dag->stages[reader].reads;
        const bool leads = std::ranges::any_of(reads, [&](const DagRead& read) {
          const size_t source = read.stage;
          return source == stage || passes_[source];
        });
        const bool inlined = nest_->stages[reader].compute_at == ComputeAt::inlined;
        passes_[reader] = leads && inlined;
        if (leads && !inlined) need_of_reader(stage, reader);
      }
      std::ranges::fill(passes_, 0);
    }
    bool symbolic = false;
    for (size_t i = 0; i < defined.axis_count(); ++i) {
      NestVariable& axis = variable(loops.axes[i]);
      const DagAxis& as_defined = defined.axis(i);
      axis.minimum = Affine::of(0);
      axis.subtracted = Affine::of(0);
      axis.extent = Affine::of(as_defined.extent);
      symbolic |= as_defined.symbolic >= 0;
      if (i >= rank || !known_[i]) continue;
      axis.minimum = needed_[i].low;
      axis.subtracted = still_subtracted(needed_[i].low, subtracted_[i]);
      axis.extent = nest_->pool.add(nest_->pool.subtract(needed_[i].high, needed_[i].low), 1);
      if (axis.extent.constant() && (axis.extent.base < 1 || axis.extent.base > kLargestExtent))
        throw DataError("stage {}: {} values of axis {} are read, expected 1 to {}", stage, axis.extent.base,
                        as_defined.name, kLargestExtent);
    }
    if (symbolic) set_symbolic_extents(stage);
  }
  /// TVM sees x·k − c·k·floor(x / c) as a remainder after all where nothing else is in the sum.
  Affine still_subtracted(const Affine& low, const Affine& subtracted) {
    if (subtracted.constant()) return subtracted;
    std::vector<AffinePart> parts;
    const int64_t base = nest_->pool.parts(low, parts);
    const bool remainder = parts.size() == 1 && parts[0].divisor == 1 && parts[0].of.count == 1 && base <= 0;
    return remainder ? Affine::of(0) : subtracted;
  }
  void need_of_reader(size_t stage, size_t reader) {
    AffinePool& pool = nest_->pool;
    const NestStage& loops = nest_->stages[reader];
    start_reader(stage, reader);
    pass_up(loops);
    const AffinePool::Relaxation relaxation = [this](int32_t id) -> const AffineInterval* {
      // The value of an axis, as extents of reductions name it, or a loop around the reader.
      if (const int32_t axis = ~id; id < 0) return &intervals_[axis];
      return outside_relaxed_[id] ? &intervals_[id] : nullptr;
    };
    axes_.clear();
    for (const int32_t id : loops.axes) {
      AffineInterval& axis = interval(id);
      // Spatial axes come first: extents of reductions are over their relaxed values.
      if (any_relaxed_ || !variable(id).extent.constant())
        axis = {pool.relax(axis.low, relaxation).low, pool.relax(axis.high, relaxation).high};
      axes_.push_back({axis.low, axis.high, false, any_relaxed_, variable(id).subtracted});
    }
    for (const int32_t id : paths_[reader]) outside_relaxed_[id] = 0;
    walk(stage, reader, 0);
  }
  /// The values of the reader's loops that one run of the stage's loops serves, then those of the reader's axes.
  void start_reader(size_t stage, size_t reader) {
    const auto& path = paths_[stage];
    const int32_t attached = path.empty() ? -1 : path.front();
    const NestStage& loops = nest_->stages[reader];
    bool inside = false;
    for (size_t i = loops.iterators.size(); i-- > 0;) {
      const int32_t id = loops.iterators[i].variable;
      if (id == attached) inside = true;
      const NestVariable& loop = variable(id);
      if (loop.extent.constant() && loop.extent.base == 1) {
        interval(id) = {Affine::of(0), Affine::of(0)};
      } else if (relaxed(id, inside)) {
        interval(id) = whole(loop);
      } else {
        const Affine point = loop_variable(id);
        interval(id) = {point, point};
      }
    }
    any_relaxed_ = false;
    for (const int32_t id : paths_[reader]) {
      if (id == attached) inside = true;
      if (!relaxed(id, inside)) continue;
      outside_relaxed_[id] = 1;
      interval(id) = whole(variable(id));
      any_relaxed_ = true;
    }
    if (attached >= 0 && !inside)
      throw DataError("stage {}: attached outside of the loops of stage {}, which reads it", stage, reader);
  }
  /// Propagates values from the loops of a stage to its axes.
  void pass_up(const NestStage& reader) {
    AffinePool& pool = nest_->pool;
    for (auto relation = reader.relations.rbegin(); relation != reader.relations.rend(); ++relation) {
      const NestVariable &outer = variable(relation->outer), &inner = variable(relation->inner);
      if (relation->kind != NestRelation::Kind::fuse) {
        const AffineInterval out = interval(relation->outer), in = interval(relation->inner);
        if (matches(out, outer) && matches(in, inner)) {
          interval(relation->parent) = whole(variable(relation->parent));
        } else {
          interval(relation->parent) = {pool.add(in.low, pool.multiply(out.low, inner.extent)),
                                        pool.add(in.high, pool.multiply(out.high, inner.extent))};
        }
        continue;
      }
      const AffineInterval fused = interval(relation->parent);
      AffineInterval &out = interval(relation->outer), &in = interval(relation->inner);
      if (pool.same(fused.low, fused.high)) {
        out.low = out.high = pool.floor_divide(fused.low, inner.extent);
        in.low = in.high = pool.floor_modulo(fused.low, inner.extent);
      } else if (matches(fused, variable(relation->parent))) {
        out = whole(outer);
        in = whole(inner);
      } else {
        out = {pool.floor_divide(fused.low, inner.extent), pool.floor_divide(fused.high, inner.extent)};
        const Affine length = pool.add(pool.subtract(fused.high, fused.low), 1);
        const auto divides = [&](const Affine& value) {
          const Affine rest = pool.floor_modulo(value, length);
          return rest.constant() && rest.base == 0;
        };
        const bool one_row = length.constant() && length.base > 0 && divides(inner.extent) && divides(fused.low);
        in = one_row ? AffineInterval{pool.floor_modulo(fused.low, inner.extent),
                                      pool.floor_modulo(fused.high, inner.extent)}
                     : whole(inner);
      }
    }
    for (const int32_t axis : reader.axes) interval(axis) = shifted(interval(axis), variable(axis).minimum);
  }
  /// All accesses of `reader`, whose axes lie in axes_ from `axes` on, to `stage`, also by way of inlined stages.
  void walk(size_t stage, size_t reader, size_t axes) {
    const ComputeDag& dag = *nest_->dag;
    for (const DagRead& read : dag.stages[reader].reads) {
      const size_t source = read.stage;
      if (source != stage && !passes_[source]) continue;
      if (++loads_ > kMostLoads)
        throw DataError("more than {} accesses in a loop nest, counted through its inlined stages", kMostLoads);
      const size_t below = axes_.size();
      for (const int32_t index : read.indices)
        axes_.push_back(index_interval(dag.expressions, index, std::span(axes_).subspan(axes), nest_->pool));
      if (source == stage) {
        for (size_t i = 0; i < read.indices.size(); ++i) need(i, axes_[below + i], dag.stages[stage].shape[i]);
      } else {
        walk(stage, source, below);
      }
      axes_.resize(below);
    }
  }
  /// Adds to what is needed of the stage: the index of one dimension, clipped where it surely covers the whole of it.
  void need(size_t dimension, IndexInterval index, int64_t extent) {
    AffinePool& pool = nest_->pool;
    if (index.everything || (pool.bounds(index.low).high <= 0 && pool.bounds(index.high).low >= extent - 1)) {
      index.low = Affine::of(0);
      index.high = Affine::of(extent - 1);
      index.subtracted = Affine::of(0);
    }
    AffineInterval& sum = needed_[dimension];
    if (known_[dimension]) {
      const Affine low = pool.minimum(sum.low, index.low);
      if (pool.same(low, sum.low)) index.subtracted = subtracted_[dimension];
      index.low = low;
      index.high = pool.maximum(sum.high, index.high);
    }
    sum = {index.low, index.high};
    known_[dimension] = 1;
    subtracted_[dimension] = index.subtracted;
  }
  /// Reductions whose extent depends on the place: the place is the value of spatial axes.
  void set_symbolic_extents(size_t stage) {
    const DagStage& defined = nest_->dag->stages[stage];
    const NestStage& loops = nest_->stages[stage];
    std::vector<Affine> values;
    for (size_t i = 0; i < defined.axis_count(); ++i) {
      const int32_t id = loops.axes[i];
      const DagAxis& axis = defined.axis(i);
      if (axis.symbolic >= 0)
        variable(id).extent = index_value(nest_->dag->expressions, axis.symbolic, values, nest_->pool);
      const NestVariable& loop = variable(id);
      const AffineBounds low = nest_->pool.bounds(loop.minimum);
      const AffineBounds high = nest_->pool.bounds(nest_->pool.add(loop.minimum, nest_->pool.add(loop.extent, -1)));
      const bool single = loop.extent.constant() && loop.extent.base == 1;
      values.push_back(single ? loop.minimum : nest_->pool.variable(~id, {low.low, std::max(low.low, high.high)}));
    }
  }
  /// Propagates values from the axes of a stage to its loops.
  void pass_down(const NestStage& stage, bool tighten) {
    AffinePool& pool = nest_->pool;
    bool threads = false;
    for (const NestIterator& iterator : stage.iterators) {
      const bool thread = variable(iterator.variable).thread != Annotation::none;
      bound_[iterator.variable] = thread;
      threads |= thread;
      if (variable(iterator.variable).origin == NestVariable::Origin::single)
        variable(iterator.variable).extent = Affine::of(1);
    }
    const auto bound = [&](int32_t id) -> uint8_t& { return bound_[id]; };
    if (threads) {
      for (auto relation = stage.relations.rbegin(); relation != stage.relations.rend(); ++relation) {
        if (relation->kind == NestRelation::Kind::fuse)
          bound(relation->outer) = bound(relation->inner) = bound(relation->parent);
        else bound(relation->parent) = bound(relation->inner) || bound(relation->outer);
      }
    }
    for (const NestRelation& relation : stage.relations) {
      NestVariable &outer = variable(relation.outer), &inner = variable(relation.inner);
      NestVariable& parent = variable(relation.parent);
      if (relation.kind == NestRelation::Kind::fuse) {
        parent.extent = pool.multiply(outer.extent, inner.extent);
        continue;
      }
      const bool by_factor = relation.kind == NestRelation::Kind::split_factor;
      NestVariable& given = by_factor ? inner : outer;
      const Affine factor = Affine::of(relation.factor);
      // A loop never runs further than what was split, unless its length must be that of a group of threads.
      const bool keep = !tighten || (threads && bound(by_factor ? relation.inner : relation.outer));
      given.extent = !keep && pool.bounds(parent.extent).high < relation.factor ? parent.extent : factor;
      (by_factor ? outer : inner).extent =
          pool.floor_divide(pool.add(parent.extent, relation.factor - 1), relation.factor);
    }
  }

  NestVariable& variable(int32_t id) { return nest_->variables[id]; }
  AffineInterval& interval(int32_t id) { return intervals_[id]; }
  /// The loop's values counted from 0; also of axes, which may start elsewhere.
  AffineInterval whole(const NestVariable& of) { return {Affine::of(0), nest_->pool.add(of.extent, -1)}; }
  bool matches(const AffineInterval& interval, const NestVariable& of) {
    return interval.low.constant() && interval.low.base == 0 && nest_->pool.same(interval.high, whole(of).high);
  }
  AffineInterval shifted(const AffineInterval& interval, const Affine& by) {
    return {nest_->pool.add(interval.low, by), nest_->pool.add(interval.high, by)};
  }
  Affine loop_variable(int32_t id) {
    return nest_->pool.variable(id, {0, bound_sum_high(nest_->pool.bounds(variable(id).extent).high)});
  }
  static int64_t bound_sum_high(int64_t extent) {
    return extent >= kUnbounded ? kUnbounded : std::max<int64_t>(extent - 1, 0);
  }
  bool relaxed(int32_t id, bool inside) const {
    const Annotation thread = nest_->variables[id].thread;
    if (thread == Annotation::none) return !inside;
    if (rank_ == kWarp && thread == Annotation::thread_x) return true;
    return rank_ <= thread_rank(thread);
  }

  LoopNest* nest_ = nullptr;
  std::vector<size_t> by_serial_;
  std::vector<std::vector<int32_t>> paths_;  // [stages] loops around each, innermost first
  std::vector<uint8_t> passes_;              // [stages] inlined, and leads to the current stage
  std::vector<AffineInterval> intervals_;    // [variables of the reader]
  std::vector<uint8_t> outside_relaxed_;     // [variables around the reader]
  std::vector<AffineInterval> needed_;
  std::vector<Affine> subtracted_;
  std::vector<uint8_t> known_;
  std::vector<IndexInterval> axes_;  // stack: axes of the reader and of the stages inlined into it
  std::vector<uint8_t> bound_;       // [variables] bound to a thread
  int rank_ = kGlobal;               // StorageRank of the current stage's memory
  bool any_relaxed_ = false;
  int64_t loads_ = 0;
};

BoundInference::BoundInference() : work_(std::make_unique<Work>()) {}
BoundInference::~BoundInference() = default;

void BoundInference::infer(LoopNest& nest) { work_->infer(nest); }

}  // namespace foretime::data
