#pragma once

#include <memory>

#include "data/frontends/ansor/replay/loop_nest.h"

namespace foretime::data {

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
