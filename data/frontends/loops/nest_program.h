#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "data/frontends/ansor/features/nest_statements.h"
#include "data/frontends/ansor/records/record.h"
#include "data/frontends/ansor/replay/loop_nest.h"
#include "data/frontends/ansor/replay/replay.h"
#include "data/frontends/loops/access_pattern.h"
#include "data/frontends/loops/loop_program.h"

namespace foretime::data {

/// The statements of a replayed schedule, in the order in which TVM's lowering leaves them: the stages at the root one
/// after the other, those attached to a loop at its start, and of a reduction first what sets its elements to the
/// identity, before the outermost of its reduction loops.
///
/// Where the record says so (TuningRecord::layout_rewrite), TVM measured a program whose weights had been rearranged in
/// the order in which its loops read them: by a statement of its own before all others (1; TVM may fuse its first
/// loops, which stay apart here), or beforehand, at no cost (2). Weights are the second operand of convolutions in
/// NHWC, of matrix products that TVM's operators define and of Winograd's batched product, where it is an input of the
/// program. Programs for GPUs are taken as they are: TVM rearranges nothing there.
///
/// Of a program whose loops are bound to blocks and threads (programs for GPUs), every stage at root is a kernel. The
/// memory of a stage that does not say it is that of its place, as TVM has it: shared inside of a loop over blocks,
/// local inside of one over threads.
///
/// One object a thread: it keeps memory.
class NestProgram {
 public:
  /// Overwrites `program`. `nest` gets further terms in its pool. Throws DataError where the nest has more statements
  /// or loops than LoopProgram may hold.
  void read(LoopNest& nest, const TuningRecord& record, LoopProgram& program);

 private:
  struct OpenLoop {
    ProgramLoop loop;
    int32_t variable = 0;
    Annotation annotation = Annotation::none;
  };

  void find_attached(const LoopNest& nest);
  void find_kernels(LoopNest& nest, LoopProgram& program);
  void set_buffers(const LoopNest& nest, LoopProgram& program);
  void set_scope(const LoopNest& nest, size_t stage, LoopProgram& program) const;
  void emit(LoopNest& nest, size_t stage, LoopProgram& program);
  void add_statement(LoopNest& nest, size_t stage, size_t output, bool initial, LoopProgram& program);
  bool is_rewritten(const LoopNest& nest, size_t stage, size_t access) const;
  void rearrange(const ProgramStatement& statement, const ProgramAccess& access, LoopProgram& program);
  void insert_transform(LoopProgram& program);
  void add_access(LoopNest& nest, const NestAccess& access, uint32_t loops, LoopProgram& program);
  void drop_repeated_threads(const ProgramStatement& statement, LoopProgram& program) const;
  void count_arithmetic(const LoopNest& nest, size_t stage, size_t output, ProgramStatement& statement);
  void count_expression(const LoopNest& nest, int32_t expression, bool compared, ProgramStatement& statement);

  std::vector<std::vector<std::pair<int32_t, size_t>>> attached_;  // of each stage: iterator and the stage there
  std::vector<OpenLoop> open_;                                     // loops around the next statement, outermost first
  std::vector<std::vector<int64_t>> row_major_;                    // of each stage: elements between neighbours
  std::vector<int32_t> buffer_of_;                                 // of each memory
  std::vector<IndexLoop> index_loops_;
  std::vector<NestAccess> accesses_;
  std::vector<Affine> values_;
  AccessPattern pattern_;
  std::vector<int32_t> kernel_of_;  // of each stage, in LoopProgram::kernels; -1: inputs and inlined ones
  int32_t kernel_ = 0;              // of the next statement
  int32_t blocks_around_ = 0, threads_around_ = 0;  // loops over them around it
  bool rewrites_ = false;
  std::vector<ProgramLoop> transform_loops_;  // of weights that are rearranged, outermost first
  std::vector<LoopAccess> transform_from_;
  int32_t transformed_ = -1;  // their buffer
  int64_t unroll_limit_ = 0;  // of the stages around the next statement
  size_t expressions_ = 0;
  std::optional<size_t> combined_;  // the stage whose combiner is counted: variables are its operands
};

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
