#pragma once

#include <memory>

#include "data/frontends/ansor/records/record.h"
#include "data/frontends/ansor/replay/loop_nest.h"

namespace foretime::data {

/// Applies the steps of records to their DAGs, as TVM's auto_scheduler does (Zheng et al., Ansor, OSDI 2020; semantics
/// of TVM 0.14), and infers the bounds of all loops. One object a thread: it keeps memory, and the DAGs that cache
/// steps and rfactor made, from record to record.
class Replayer {
 public:
  Replayer();
  ~Replayer();

  /// Overwrites `nest`, using its memory again. Throws DataError, which names step, stage and what was expected, where
  /// a step cannot be applied, where the schedule leaves a length open, or where it is no valid program (a stage
  /// attached outside of its readers' loops). `nest` is then unspecified, but can be used again.
  void replay(const std::shared_ptr<const ComputeDag>& dag, const ScheduleSteps& steps, LoopNest& nest);

 private:
  struct Work;
  std::unique_ptr<Work> work_;
};

}  // namespace foretime::data
