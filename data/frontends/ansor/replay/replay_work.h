#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "data/frontends/ansor/dag/compute_dag.h"
#include "data/frontends/ansor/replay/loop_nest.h"

namespace foretime::data {

/// Returns the DAG with an additional stage after `stage` that copies the first tensor of `stage` into memory of
/// `scope`. The stages `readers` (numbers in `dag`) read the copy. Throws DataError if one does not read it.
ComputeDag with_cache_read(const ComputeDag& dag, int32_t stage, std::string_view scope,
                           std::span<const int32_t> readers);

/// Returns the DAG with an additional stage before `stage` that computes the tensors of `stage` in memory of `scope`;
/// `stage` becomes a copy of these tensors.
ComputeDag with_cache_write(const ComputeDag& dag, int32_t stage, std::string_view scope);

/// Returns the DAG with an additional stage before `stage` that has the reduction variable `variable` (an iterator of
/// the stage in `nest`) as the spatial axis `position` (negative: from the end) and does the rest of the reduction;
/// `stage` then reduces over that axis. Throws DataError for a spatial variable, an extent that is not constant, a
/// position that the stage lacks, unknown bodies, and earlier splits or fusions of other axes.
ComputeDag with_rfactor(const LoopNest& nest, int32_t stage, int32_t variable, int32_t position);

/// Infers the values of the loop variables of a nest like te::InferBound: from the outputs backwards, each stage
/// computes the elements that its readers need inside the loop that it is attached to. Reuses its memory.
class BoundInference {
 public:
  BoundInference();
  ~BoundInference();

  /// Sets minimum and extent of all variables, and attach_loop of all stages of `nest`. Throws DataError if a stage is
  /// attached outside of its readers' loops, to an inlined stage, to a loop that was fused away, or to itself through
  /// other stages; if an output is not at root; and above 100,000 accesses.
  void infer(LoopNest& nest);

 private:
  struct Work;
  std::unique_ptr<Work> work_;
};

}  // namespace foretime::data
