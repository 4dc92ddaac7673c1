#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "data/frontends/ansor/records/record.h"
#include "data/frontends/ansor/replay/loop_nest.h"
#include "data/frontends/ansor/replay/nest_statements.h"
#include "data/frontends/ansor/replay/replay.h"
#include "data/frontends/loops/access_pattern.h"
#include "data/frontends/loops/loop_program.h"

namespace foretime::data {

/// Converts a replayed schedule to statements in the order of TVM's lowering: the stages at root one after another,
/// stages attached to a loop at its start, and the initialisation of a reduction before its outermost reduction loop.
///
/// If the record says so (TuningRecord::layout_rewrite), TVM measured a program whose weights had been rearranged into
/// the order in which its loops read them: by an additional first statement (1; TVM may fuse its first loops, which are
/// not fused here), or beforehand, at no cost (2). Weights are the second operand of convolutions in NHWC, of matrix
/// products that TVM's operators define and of Winograd's batched product, if it is an input of the program. Programs
/// for GPUs are unchanged: TVM rearranges nothing there.
///
/// Each stage at root, with all stages attached to it, is a kernel of a program for GPUs (some loop is bound to blocks
/// or threads). A stage without a storage scope gets the scope of its position, as in TVM: shared inside a loop over
/// blocks, local inside a loop over threads, otherwise global.
///
/// Reuses its memory; make one object for each thread.
class NestProgram {
 public:
  /// Overwrites `program` with the statements of `nest`, and adds terms to the pool of `nest`. Of `record`, only
  /// layout_rewrite is used. Throws DataError for more statements than kMostStatements, more loops around a statement
  /// than kMostStatementLoops, more than 100,000 accesses or operations of a statement, and numbers beyond 2^62.
  void read(LoopNest& nest, const TuningRecord& record, LoopProgram& program);

 private:
  struct OpenLoop {
    ProgramLoop loop;
    int32_t variable = 0;  // index in LoopNest::variables
    Annotation annotation = Annotation::none;
  };

  void find_attached(const LoopNest& nest);                 // finds the stages attached to each loop
  void find_kernels(LoopNest& nest, LoopProgram& program);  // adds the kernels, none if the program is not for GPUs
  void set_buffers(const LoopNest& nest, LoopProgram& program);                    // adds a buffer for each tensor
  void set_scope(const LoopNest& nest, size_t stage, LoopProgram& program) const;  // sets scopes of the stage's buffers
  /// Adds the statements of a stage and of the stages attached to it.
  void emit(LoopNest& nest, size_t stage, LoopProgram& program);
  /// Adds the statement in open_ that computes tensor `output` of a stage, or, if `initial`, that initialises it.
  void add_statement(LoopNest& nest, size_t stage, size_t output, bool initial, LoopProgram& program);
  /// Returns whether access number `access` of the stage's statement reads weights that TVM has rearranged.
  bool is_rewritten(const LoopNest& nest, size_t stage, size_t access) const;
  /// Changes the strides of an access to the rearranged weights.
  void rearrange(const ProgramStatement& statement, const ProgramAccess& access, LoopProgram& program);
  void insert_transform(LoopProgram& program);  // inserts the statement that rearranges the weights
  void add_access(LoopNest& nest, const NestAccess& access, uint32_t loops, LoopProgram& program);
  /// Sets the extent of a statement's loops over threads that repeat the work of other threads to 1 (ProgramLoop).
  void drop_repeated_threads(const ProgramStatement& statement, LoopProgram& program) const;
  /// Counts the operations that compute tensor `output` of a stage, those of inlined stages included.
  void count_arithmetic(const LoopNest& nest, size_t stage, size_t output, ProgramStatement& statement);
  /// Counts the operations of an expression; `compared` excludes those in a condition.
  void count_expression(const LoopNest& nest, int32_t expression, bool compared, ProgramStatement& statement);

  std::vector<std::vector<std::pair<int32_t, size_t>>> attached_;  // [stages] iterator and the stage attached there
  std::vector<OpenLoop> open_;                                     // loops around the next statement, outermost first
  std::vector<std::vector<int64_t>> row_major_;                    // [stages] elements between neighbours
  std::vector<int32_t> buffer_of_;      // [ComputeDag::memories()] index in LoopProgram::buffers; -1: no such tensor
  std::vector<IndexLoop> index_loops_;  // loops of open_
  std::vector<NestAccess> accesses_;    // accesses of the current statement
  std::vector<Affine> values_;          // values of the axes in an initial statement
  AccessPattern pattern_;
  std::vector<int32_t> kernel_of_;  // [stages] index in LoopProgram::kernels; -1: inputs and inlined ones
  int32_t kernel_ = 0;              // kernel of the next statement
  int32_t blocks_around_ = 0, threads_around_ = 0;  // loops over blocks and threads around the next statement
  bool rewrites_ = false;                           // TVM may have rearranged weights
  std::vector<ProgramLoop> transform_loops_;        // loops that rearrange weights, outermost first
  std::vector<LoopAccess> transform_from_;          // [transform_loops_] how these loops move through the given weights
  int32_t transformed_ = -1;                        // buffer of the weights that were rearranged; -1: none
  int64_t unroll_limit_ = 0;                        // limit of the stages around the next statement
  size_t expressions_ = 0;                          // expressions counted for the current statement
  std::optional<size_t> combined_;  // stage whose combiner is being counted; variables are the combiner's operands
};

/// Converts records to loop programs: applies the schedule to its DAG and extracts the statements. One object a thread.
class RecordProgram {
 public:
  /// Overwrites `program` with that of a record of `dag`. Throws DataError if the schedule cannot be applied to `dag`
  /// (Replayer) or exceeds a limit (NestProgram); this object can be used again then.
  void read(const std::shared_ptr<const ComputeDag>& dag, const TuningRecord& record, LoopProgram& program);

 private:
  Replayer replayer_;
  LoopNest nest_;
  NestProgram statements_;
};

/// Returns to what an annotation binds a loop: virtual threads, blocks, threads, or none of them.
ThreadAxis thread_axis(Annotation annotation);
/// Returns the dimension of a block or thread annotation: 0 for x, 1 for y, 2 for z; 0 for all other annotations.
size_t thread_dimension(Annotation annotation);

/// Writes the value of an index for each of the first threads of a block to `lanes`, threadIdx.x varying fastest. All
/// variables that are not bound to threads are 0. If the block has fewer threads than `lanes` has entries, the further
/// entries are unchanged. Values are limited to ± 2^50. Throws DataError if a number is beyond 2^62 on the way.
void lane_positions(const LoopNest& nest, const Affine& index, const ProgramKernel& kernel, std::span<int64_t> lanes);

}  // namespace foretime::data
