#pragma once

#include <memory>

#include "data/frontends/ansor/replay/replay.h"
#include "data/frontends/loops/loop_program.h"
#include "data/frontends/loops/nest_program.h"

namespace foretime::data {

/// Arithmetic operations of all stages of a DAG.
double operations_of(const ComputeDag& dag);

/// From records to loop programs: the schedule applied to its DAG, and the statements of what results. One object a
/// thread: it keeps memory.
class RecordProgram {
 public:
  /// Overwrites `program`. Throws DataError where the schedule does not apply (Replayer, NestProgram); the object can
  /// be used again.
  void read(const std::shared_ptr<const ComputeDag>& dag, const TuningRecord& record, LoopProgram& program);

 private:
  Replayer replayer_;
  LoopNest nest_;
  NestProgram statements_;
};

}  // namespace foretime::data
