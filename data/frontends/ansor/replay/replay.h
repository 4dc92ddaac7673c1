#pragma once

#include <memory>

#include "data/frontends/ansor/records/record.h"
#include "data/frontends/ansor/replay/loop_nest.h"

namespace foretime::data {

/// Applies the steps of records to their DAGs like TVM's auto_scheduler (Zheng et al., Ansor, OSDI 2020; semantics of
/// TVM 0.14), and infers the bounds of all loops. Keeps its memory, and the DAGs of cache steps and rfactor, from
/// record to record; make one object for each thread.
class Replayer {
 public:
  Replayer();
  ~Replayer();

  /// Overwrites `nest` with the stages of `dag` after all steps of a schedule. Throws DataError, which names step and
  /// stage, if a step cannot be applied or a split has an open length, and the errors of BoundInference. `nest` is then
  /// unspecified but can be passed again.
  void replay(const std::shared_ptr<const ComputeDag>& dag, const ScheduleSteps& steps, LoopNest& nest);

 private:
  struct Work;
  std::unique_ptr<Work> work_;
};

}  // namespace foretime::data
