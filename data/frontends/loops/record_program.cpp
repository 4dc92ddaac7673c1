#include "data/frontends/loops/record_program.h"

namespace foretime::data {

double operations_of(const ComputeDag& dag) {
  double operations = 0.0;
  for (const DagStage& stage : dag.stages) operations += stage.flops;
  return operations;
}

void RecordProgram::read(const std::shared_ptr<const ComputeDag>& dag, const TuningRecord& record,
                         LoopProgram& program) {
  replayer_.replay(dag, record.schedule, nest_);
  statements_.read(nest_, record, program);
}

}  // namespace foretime::data
