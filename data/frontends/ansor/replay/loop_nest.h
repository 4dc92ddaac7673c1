#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/frontends/ansor/dag/compute_dag.h"
#include "data/frontends/ansor/records/record.h"
#include "data/frontends/ansor/replay/affine.h"

namespace foretime::data {

/// Says over which axes a loop runs: spatial axes, reduction axes, both (a fusion), or none (a fusion of no loops).
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
  Annotation thread = Annotation::none;  // thread or block that the variable's loop is bound to
  int32_t serial = 0;                    // NestStage::serial of the stage that the variable belongs to
  int32_t first = -1, second = -1;       // see Origin: position of an axis, or indices in LoopNest::variables
  /// Hold the range of the variable's values, minimum to minimum + extent − 1, as expressions over the variables of
  /// outer loops. Axes of a stage may start anywhere, all other variables start at 0. An extent is constant, except for
  /// reductions whose length depends on the position, as in adaptive pooling.
  Affine minimum{}, extent{};
  Affine subtracted{};  // IndexInterval of an axis: IndexInterval::subtracted of the minimum
};

/// Describes a loop of a stage.
struct NestIterator {
  int32_t variable = -1;  // index in LoopNest::variables
  IteratorKind kind = IteratorKind::spatial;
  Annotation annotation = Annotation::none;
};

/// Describes how a split or fusion relates variables: parent = outer × extent of inner + inner.
struct NestRelation {
  enum class Kind : uint8_t { split_factor, split_parts, fuse } kind = Kind::split_factor;
  int32_t parent = -1;             // split: the variable that was split; fuse: the variable that resulted
  int32_t outer = -1, inner = -1;  // split: the variables that resulted; fuse: the variables that were fused
  int64_t factor = 0;  // extent that a split gives to `inner` (split_factor) or `outer` (split_parts); fuse: 0
};

/// Describes one stage of a scheduled program. Its number is its index in LoopNest::stages and LoopNest::dag.
struct NestStage {
  int32_t serial = 0;  // identifies the stage; unlike its number, unchanged when a step inserts a stage before it
  ComputeAt compute_at = ComputeAt::root;
  /// Name the loop that the stage is attached to, by the numbers of a stage and of one of its iterators; -1: none.
  int32_t attach_stage = -1, attach_iterator = -1;
  int64_t auto_unroll_max_step = 0;     // limit of TVM's automatic unrolling in this stage; 0: none
  int64_t storage_offset = 0;           // offset of the stage's last storage_align step
  int32_t unroll_variable = -1;         // variable of the loop at which auto_unroll_max_step was set; -1: none
  std::vector<int32_t> axes;            // the variable of each axis of DagStage, spatial axes first
  std::vector<NestIterator> iterators;  // the loops, outermost first
  std::vector<NestRelation> relations;  // the stage's splits and fusions, in the order of the steps
  /// Names the loop that the stage was attached to by its variable; -1: none. Bound inference uses it, since TVM's
  /// number attach_iterator becomes wrong if a later step reorders the loops.
  int32_t attach_variable = -1;
  /// Names the loop that later splits or fusions made of that loop, by its variable; set by bound inference; -1: none.
  int32_t attach_loop = -1;
};

/// Describes a scheduled program: its stages with their loops and bounds. TVM calls it a state after bound inference.
struct LoopNest {
  std::shared_ptr<const ComputeDag> dag;  // includes the stages that cache steps and rfactor inserted
  std::vector<NestStage> stages;
  std::vector<NestVariable> variables;
  AffinePool pool;  // holds the expressions of the variables' ranges

  const NestVariable& variable(const NestIterator& iterator) const { return variables[iterator.variable]; }
  /// Returns the number of the stage with this serial number; stages.size() if a step replaced that stage.
  size_t stage_of(int32_t serial) const;
};

/// Returns TVM's name of the loop with a variable (index in nest.variables): `i.outer.j.outer.fused`, or `threadIdx.x`
/// if the loop is bound to a thread. Names of more than some 4,096 bytes are cut.
std::string loop_name(const LoopNest& nest, int32_t variable);

}  // namespace foretime::data
