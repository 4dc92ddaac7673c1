#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/frontends/ansor/dag/compute_dag.h"
#include "data/frontends/ansor/records/record.h"
#include "data/frontends/ansor/replay/affine.h"

namespace foretime::data {

enum class IteratorKind : uint8_t { spatial, reduce, mixed, special };

/// Where a stage is computed: in loops of its own, inside of its readers' expressions, or in a loop of another stage.
enum class ComputeAt : uint8_t { root, inlined, iterator };

/// One loop variable of a stage, also those that a later split or fusion replaced.
struct NestVariable {
  enum class Origin : uint8_t {
    axis,         // an axis of the stage: `first` is its position (DagStage::axis)
    split_outer,  // of `first`
    split_inner,  // of `first`
    fused,        // of `first` (outer) and `second` (inner)
    single,       // of extent 1, from a fusion of nothing
  };
  Origin origin = Origin::axis;
  Annotation thread = Annotation::none;  // what it is bound to, if to a thread or block
  int32_t serial = 0;                    // NestStage::serial of its stage
  int32_t first = -1, second = -1;
  /// The values that it takes: minimum to minimum + extent − 1, over variables of loops outside of it. Axes of a stage
  /// may start anywhere, all other variables start at 0. An extent is constant, save for reductions whose length
  /// depends on the place, as in adaptive pooling.
  Affine minimum{}, extent{};
  Affine taken{};  // of an axis: IndexInterval::taken in its minimum
};

/// A loop of a stage.
struct NestIterator {
  int32_t variable = -1;  // in LoopNest
  IteratorKind kind = IteratorKind::spatial;
  Annotation annotation = Annotation::none;
};

/// How a split or fusion relates variables: outer × factor + inner = first, or the fused pair.
struct NestRelation {
  enum class Kind : uint8_t { split_factor, split_parts, fuse } kind = Kind::split_factor;
  int32_t parent = -1;  // split: the variable that was split; fuse: the result
  int32_t outer = -1, inner = -1;
  int64_t factor = 0;  // of the inner (split_factor) or the outer variable (split_parts), as the step says
};

/// One stage of a scheduled program. Its number is its place in LoopNest::stages and in LoopNest::dag.
struct NestStage {
  int32_t serial = 0;  // stays when stages are inserted
  ComputeAt compute_at = ComputeAt::root;
  /// The loop that it is attached to, as numbers of a stage and of an iterator; -1 if none.
  int32_t attach_stage = -1, attach_iterator = -1;
  int64_t auto_unroll_max_step = 0, storage_offset = 0;
  int32_t unroll_variable = -1;  // that auto_unroll_max_step was set at; without effect if a step replaced it since
  std::vector<int32_t> axes;     // variables, one for each axis of DagStage
  std::vector<NestIterator> iterators;  // the loops, outermost first
  std::vector<NestRelation> relations;  // in the order of the steps
  /// The variable of the loop that it is attached to: what bounds were inferred with. It is the one above, unless a
  /// step reordered the loops after the attachment, where TVM's number goes stale.
  int32_t attach_variable = -1;
  /// The loop that this comes to in the end, where steps split or fused it after the attachment: bound inference sets
  /// it.
  int32_t attach_loop = -1;
};

/// What a schedule makes of a program: the stages with their loops and bounds. TVM calls it a state after bound
/// inference.
struct LoopNest {
  std::shared_ptr<const ComputeDag> dag;  // with the stages that cache steps and rfactor inserted
  std::vector<NestStage> stages;
  std::vector<NestVariable> variables;
  AffinePool pool;  // of the variables' bounds

  const NestVariable& variable(const NestIterator& iterator) const {
    return variables[static_cast<size_t>(iterator.variable)];
  }
  /// The stage with this serial number; stages.size() if a step replaced it.
  size_t stage_of(int32_t serial) const;
};

/// The name that TVM's loop has in expressions: `i.outer.j.outer.fused`, `threadIdx.x`. Absurdly long ones are cut.
std::string loop_name(const LoopNest& nest, int32_t variable);

/// Text of a bound, over loop names.
std::string bound_text(const LoopNest& nest, const Affine& bound);

}  // namespace foretime::data
