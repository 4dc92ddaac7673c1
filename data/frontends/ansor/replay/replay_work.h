#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "data/frontends/ansor/dag/compute_dag.h"
#include "data/frontends/ansor/replay/loop_nest.h"

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

}  // namespace foretime::data
