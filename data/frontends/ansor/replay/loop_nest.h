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

/// Says where a stage is computed: in separate loops, inside its readers' expressions, or in a loop of another stage.
enum class ComputeAt : uint8_t { root, inlined, iterator };

/// Describes one loop variable of a stage, including those that a later split or fusion replaced.
struct NestVariable {
  enum class Origin : uint8_t {
    axis,         // an axis of the stage: `first` is its position (DagStage::axis)
    split_outer,  // outer part of `first`
    split_inner,  // inner part of `first`
    fused,        // fusion of `first` (outer) and `second` (inner)
    single,       // extent 1, from a fusion of no iterators
  };
  Origin origin = Origin::axis;
  Annotation thread = Annotation::none;  // thread or block that it is bound to
  int32_t serial = 0;                    // NestStage::serial of its stage
  int32_t first = -1, second = -1;
  /// Holds the values of the variable: minimum to minimum + extent − 1, over variables of outer loops. Axes of a stage
  /// may start anywhere, all other variables start at 0. An extent is constant, except for reductions whose length
  /// depends on the position, as in adaptive pooling.
  Affine minimum{}, extent{};
  Affine subtracted{};  // axis: IndexInterval::subtracted in its minimum
};

/// Describes a loop of a stage.
struct NestIterator {
  int32_t variable = -1;  // index in LoopNest::variables
  IteratorKind kind = IteratorKind::spatial;
  Annotation annotation = Annotation::none;
};

/// Describes how a split or fusion relates variables: outer × factor + inner = first, or the fused pair.
struct NestRelation {
  enum class Kind : uint8_t { split_factor, split_parts, fuse } kind = Kind::split_factor;
  int32_t parent = -1;  // split: the variable that was split; fuse: the result
  int32_t outer = -1, inner = -1;
  int64_t factor = 0;  // extent of the inner (split_factor) or the outer variable (split_parts), from the step
};

/// Describes one stage of a scheduled program. Its number is its index in LoopNest::stages and LoopNest::dag.
struct NestStage {
  int32_t serial = 0;  // constant when stages are inserted
  ComputeAt compute_at = ComputeAt::root;
  /// Identifies the loop that it is attached to, by numbers of a stage and of an iterator; -1: none.
  int32_t attach_stage = -1, attach_iterator = -1;
  int64_t auto_unroll_max_step = 0, storage_offset = 0;
  int32_t unroll_variable =
      -1;                     // loop at which auto_unroll_max_step was set; no effect if a step has replaced it since
  std::vector<int32_t> axes;  // variables, one for each axis of DagStage
  std::vector<NestIterator> iterators;  // the loops, outermost first
  std::vector<NestRelation> relations;  // ordered like the steps
  /// Identifies the loop that it is attached to by its variable, which bounds were inferred with. Differs from
  /// attach_iterator only if a step reordered the loops after the attachment, so that TVM's number became stale.
  int32_t attach_variable = -1;
  /// Identifies the loop that replaced the attachment's loop after later splits or fusions; set by bound inference.
  int32_t attach_loop = -1;
};

/// Describes a scheduled program: its stages with their loops and bounds. TVM calls it a state after bound inference.
struct LoopNest {
  std::shared_ptr<const ComputeDag> dag;  // includes the stages that cache steps and rfactor inserted
  std::vector<NestStage> stages;
  std::vector<NestVariable> variables;
  AffinePool pool;  // holds the variables' bounds

  const NestVariable& variable(const NestIterator& iterator) const { return variables[iterator.variable]; }
  /// Returns the stage with this serial number; stages.size() if a step replaced it.
  size_t stage_of(int32_t serial) const;
};

/// Returns TVM's name of a loop in expressions: `i.outer.j.outer.fused`, `threadIdx.x`. Extremely long names are cut.
std::string loop_name(const LoopNest& nest, int32_t variable);

}  // namespace foretime::data
