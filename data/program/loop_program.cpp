#include "data/program/loop_program.h"

namespace foretime::data {

void LoopProgram::clear() {
  statements.clear();
  loops.clear();
  accesses.clear();
  strides.clear();
  buffers.clear();
}

double LoopProgram::iterations(const ProgramStatement& statement) const {
  double product = 1.0;
  for (const ProgramLoop& loop : loops_of(statement)) product *= static_cast<double>(loop.extent);
  return product;
}

namespace {

/// The statement that sets what `update` starts from; null if there is none before it.
const ProgramStatement* initial_of(const LoopProgram& program, const ProgramStatement& update) {
  const ProgramStatement* found = nullptr;
  const int32_t buffer = program.accesses[update.first_access].buffer;
  for (const ProgramStatement& statement : program.statements) {
    if (&statement == &update) break;
    if (statement.initial && program.accesses[statement.first_access].buffer == buffer) found = &statement;
  }
  return found;
}

}  // namespace

void LoopProgram::finish() {
  for (const ProgramStatement& statement : statements) {
    const auto written = strides_of(statement, accesses[statement.first_access]);
    const ProgramStatement* initial = statement.update ? initial_of(*this, statement) : nullptr;
    for (uint32_t i = 0; i < statement.loops; ++i) {
      ProgramLoop& loop = loops[statement.first_loop + i];
      // A loop around the initial assignment starts the reduction anew in each iteration.
      const bool around = initial != nullptr && i < initial->loops && loops[initial->first_loop + i].id == loop.id;
      loop.reduction = statement.update && written[i].distinct == 1.0 && !around;
    }
  }
  for (const ProgramStatement& writer : statements) {
    ProgramBuffer& buffer = buffers[static_cast<size_t>(accesses[writer.first_access].buffer)];
    buffer.written = true;
  }
  for (const ProgramStatement& reader : statements) {
    const auto touched = accesses_of(reader);
    for (const ProgramAccess& load : touched.subspan(1)) {
      ProgramBuffer& buffer = buffers[static_cast<size_t>(load.buffer)];
      if (buffer.written && load.buffer != touched[0].buffer) buffer.temporary = true;
    }
  }
}

}  // namespace foretime::data
