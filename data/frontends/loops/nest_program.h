#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "data/frontends/ansor/records/record.h"
#include "data/frontends/ansor/replay/loop_nest.h"
#include "data/frontends/ansor/replay/nest_statements.h"
#include "data/frontends/ansor/replay/replay.h"
#include "data/frontends/loops/access_pattern.h"
#include "data/frontends/loops/loop_program.h"

namespace foretime::data {

/// Converts a replayed schedule to statements in the order of TVM's lowering: the stages at root one after another,
/// stages attached to a loop at its start, and the initialisation of a reduction before the outermost of its reduction
/// loops.
///
/// If the record says so (TuningRecord::layout_rewrite), TVM measured a program whose weights had been rearranged into
/// the order in which its loops read them: by an additional first statement (1; TVM may fuse its first loops, which are
/// not fused here), or beforehand, at no cost (2). Weights are the second operand of convolutions in NHWC, of matrix
/// products that TVM's operators define and of Winograd's batched product, if it is an input of the program. Programs
/// for GPUs are unchanged: TVM rearranges nothing there.
///
/// Every stage at root is a kernel if loops are bound to blocks and threads (programs for GPUs). A
/// stage without a storage scope gets the one of its position, as in TVM: shared inside a loop over blocks, local
/// inside one over threads.
///
/// Reuses its memory; make one object for each thread.
class NestProgram {
 public:
  /// Overwrites `program`, and adds terms to the pool of `nest`. Throws DataError if the nest has more statements or
  /// loops than LoopProgram may hold.
  void read(LoopNest& nest, const TuningRecord& record, LoopProgram& program);

 private:
  struct OpenLoop {
    ProgramLoop loop;
    int32_t variable = 0;
    Annotation annotation = Annotation::none;
  };

  /// Finds the stages attached to each loop.
  void find_attached(const LoopNest& nest);
  void find_kernels(LoopNest& nest, LoopProgram& program);
  /// Describes the buffers of all tensors.
  void set_buffers(const LoopNest& nest, LoopProgram& program);
  void set_scope(const LoopNest& nest, size_t stage, LoopProgram& program) const;
  /// Adds the statements of a stage and of the stages attached to it.
  void emit(LoopNest& nest, size_t stage, LoopProgram& program);
  void add_statement(LoopNest& nest, size_t stage, size_t output, bool initial, LoopProgram& program);
  /// Returns whether TVM has rearranged the weights that an access reads.
  bool is_rewritten(const LoopNest& nest, size_t stage, size_t access) const;
  /// Changes the strides of an access to the rearranged weights.
  void rearrange(const ProgramStatement& statement, const ProgramAccess& access, LoopProgram& program);
  /// Inserts the statement that rearranges the weights.
  void insert_transform(LoopProgram& program);
  void add_access(LoopNest& nest, const NestAccess& access, uint32_t loops, LoopProgram& program);
  /// Sets the extent of loops that repeat other threads to 1.
  void drop_repeated_threads(const ProgramStatement& statement, LoopProgram& program) const;
  void count_arithmetic(const LoopNest& nest, size_t stage, size_t output, ProgramStatement& statement);
  void count_expression(const LoopNest& nest, int32_t expression, bool compared, ProgramStatement& statement);

  std::vector<std::vector<std::pair<int32_t, size_t>>> attached_;  // [stages] iterator and the stage attached there
  std::vector<OpenLoop> open_;                                     // loops around the next statement, outermost first
  std::vector<std::vector<int64_t>> row_major_;                    // [stages] elements between neighbours
  std::vector<int32_t> buffer_of_;                                 // [memories]
  std::vector<IndexLoop> index_loops_;
  std::vector<NestAccess> accesses_;
  std::vector<Affine> values_;
  AccessPattern pattern_;
  std::vector<int32_t> kernel_of_;  // [stages] index in LoopProgram::kernels; -1: inputs and inlined ones
  int32_t kernel_ = 0;              // kernel of the next statement
  int32_t blocks_around_ = 0, threads_around_ = 0;  // loops over blocks and threads around the next statement
  bool rewrites_ = false;
  std::vector<ProgramLoop> transform_loops_;  // loops that rearrange weights, outermost first
  std::vector<LoopAccess> transform_from_;
  int32_t transformed_ = -1;  // buffer of the rearranged weights
  int64_t unroll_limit_ = 0;  // limit of the stages around the next statement
  size_t expressions_ = 0;
  std::optional<size_t> combined_;  // stage whose combiner is counted; variables are its operands
};

/// Converts records to loop programs: applies the schedule to its DAG and extracts the statements. Make one object for
/// each thread.
class RecordProgram {
 public:
  /// Overwrites `program`. Throws DataError if the schedule does not apply (Replayer, NestProgram); the object can be
  /// reused then.
  void read(const std::shared_ptr<const ComputeDag>& dag, const TuningRecord& record, LoopProgram& program);

 private:
  Replayer replayer_;
  LoopNest nest_;
  NestProgram statements_;
};

}  // namespace foretime::data
