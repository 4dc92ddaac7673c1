#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "data/frontends/ansor/dag/compute_dag.h"
#include "data/frontends/ansor/replay/loop_nest.h"

namespace foretime::data {

/// Returns the DAG with an additional stage after `stage` that copies it into memory of `scope`; the stages `readers`
/// (numbers of `dag`) read the copy. Throws DataError if a reader does not read the stage.
ComputeDag with_cache_read(const ComputeDag& dag, int32_t stage, std::string_view scope,
                           std::span<const int32_t> readers);

/// Returns the DAG with an additional stage before `stage` that computes it in memory of `scope`; `stage` becomes a
/// copy.
ComputeDag with_cache_write(const ComputeDag& dag, int32_t stage, std::string_view scope);

/// Returns the DAG with an additional stage before `stage` that has the reduction variable `variable` (an iterator of
/// the stage in `nest`) as the spatial axis `position` (negative: from the end) and does the rest of the reduction;
/// `stage` then reduces over that axis.
ComputeDag with_rfactor(const LoopNest& nest, int32_t stage, int32_t variable, int32_t position);

/// Infers the values of the loop variables of a nest like te::InferBound: from the outputs backwards, each stage
/// computes the elements that its readers need inside the loop that it is attached to. Keeps its memory from nest to
/// nest.
class BoundInference {
 public:
  BoundInference();
  ~BoundInference();

  /// Sets minimum and extent of all variables of `nest`. Throws DataError if a stage is attached outside of the loops
  /// of its readers, or to a stage without loops.
  void infer(LoopNest& nest);

 private:
  struct Work;
  std::unique_ptr<Work> work_;
};

}  // namespace foretime::data
