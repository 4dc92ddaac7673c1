#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "data/frontends/ansor/dag/expression.h"

namespace foretime::data {

constexpr double kLineBytes = 64.0;  // a cache line

/// Says how a loop is executed; the values are those of TIR's ForKind.
enum class LoopKind : uint8_t { serial, parallel, vectorized, unrolled, thread };
constexpr size_t kLoopKinds = 5;

/// Says to which threads a loop of kind thread is bound.
enum class ThreadAxis : uint8_t { none, virtual_thread, block, thread };

/// Describes a loop around a statement. Loops of extent 1 are omitted, except in GPU programs, where such a loop does
/// not repeat the statement: its threads are those of an inner loop (several stages of a kernel use one threadIdx.x),
/// or virtual threads that share the statement's result.
struct ProgramLoop {
  int64_t extent = 1;  // iterations
  LoopKind kind = LoopKind::serial;
  int32_t id = 0;                      // equal for two statements that are in the same loop
  bool unrolled = false;               // annotated so, or unrolled because of auto_unroll_max_step
  bool reduction = false;              // the statement adds to the same elements in each iteration
  ThreadAxis axis = ThreadAxis::none;  // threads that a loop of kind thread is bound to
};
/// Returns whether a loop's iterations run on different cores (of a CPU) or multiprocessors (of a GPU).
inline bool runs_in_parallel(const ProgramLoop& loop) {
  return loop.kind == LoopKind::parallel || loop.axis == ThreadAxis::block;
}

/// Classifies operations on values. Of operations on indices and in conditions only the select counts.
enum class Arithmetic : uint8_t { add, multiply, divide, minmax, select, call, cast };
constexpr size_t kArithmetic = 7;
/// Returns the class of a kind of expression; empty for kinds that are no operation of these classes.
std::optional<Arithmetic> arithmetic_of(ExpressionKind kind);

/// Describes how one loop of a statement moves an access. All counts are of elements, except lines.
struct LoopAccess {
  int64_t stride = 0;      // elements between the first two iterations, in the buffer's row-major order
  double distinct = 1.0;   // elements that this loop alone reaches
  double footprint = 1.0;  // elements that this loop and all inner loops reach
  double lines = 1.0;      // 64-byte cache lines that this loop and all inner loops reach
};

/// One access of a statement.
struct ProgramAccess {
  int32_t buffer = 0;  // index in LoopProgram::buffers
  uint32_t first = 0;  // index in LoopProgram::strides of the entry of the outermost loop; the inner loops' follow
};

/// An assignment with the loops around it.
struct ProgramStatement {
  uint32_t first_loop = 0, loops = 0;             // range in LoopProgram::loops, outermost first
  uint32_t first_access = 0, accesses = 0;        // range in LoopProgram::accesses; the first one is the store
  std::array<int32_t, kArithmetic> arithmetic{};  // number of operations of each class in one iteration
  int64_t unroll_limit = 0;                       // auto_unroll_max_step around the statement, 0: none
  bool initial = false;                           // writes the constant that initialises a reduction
  bool update = false;  // also reads the written element; this load is not listed as an access
  int32_t kernel = 0;   // GPU programs: index in LoopProgram::kernels
};

/// Says which threads share a GPU program's buffer: all, those of a block, or none (registers of one thread).
enum class BufferScope : uint8_t { global, shared, local };
constexpr size_t kBufferScopes = 3;

/// Describes a buffer that statements access.
struct ProgramBuffer {
  int64_t elements = 1;
  int32_t element_bytes = 4;
  bool written = false;    // a statement writes the buffer
  bool temporary = false;  // a statement writes the buffer, another one reads it
  BufferScope scope = BufferScope::global;
};

/// Describes the threads that a GPU program starts at once: the statements of a root stage and of those attached to it.
struct ProgramKernel {
  int64_t blocks = 1, virtual_threads = 1;     // blocks of the kernel; virtual threads that each thread runs
  std::array<int64_t, 3> threads = {1, 1, 1};  // threads of a block along threadIdx.x, y, z

  int64_t block_threads() const { return threads[0] * threads[1] * threads[2]; }
};

/// Bounds the lanes of a warp in LoopProgram::lanes: 32 on NVIDIA's GPUs, 64 on AMD's.
constexpr size_t kMostLanes = 64;

/// A scheduled tensor program as its assignments in execution order: the parts of a loop nest that a cost model
/// needs, from a tuning record or a syntax tree. Arrays keep their memory over clear().
struct LoopProgram {
  std::vector<ProgramStatement> statements;
  std::vector<ProgramLoop> loops;
  std::vector<ProgramAccess> accesses;
  std::vector<LoopAccess> strides;  // each access has one entry for each loop of its statement
  std::vector<ProgramBuffer> buffers;
  std::vector<ProgramKernel> kernels;  // empty: not a program for GPUs
  /// GPU programs: holds for each access kMostLanes positions in its buffer, those of the first threads of the first
  /// block in the first iteration of all other loops. A block with fewer threads has only as many positions.
  std::vector<int64_t> lanes;

  bool is_gpu() const { return !kernels.empty(); }
  void clear();  // removes all statements and buffers
  std::span<const ProgramLoop> loops_of(const ProgramStatement& statement) const {
    return std::span(loops).subspan(statement.first_loop, statement.loops);
  }
  std::span<const ProgramAccess> accesses_of(const ProgramStatement& statement) const {
    return std::span(accesses).subspan(statement.first_access, statement.accesses);
  }
  /// Returns how each loop of a statement moves the access, outermost loop first.
  std::span<const LoopAccess> strides_of(const ProgramStatement& statement, const ProgramAccess& access) const {
    return std::span(strides).subspan(access.first, statement.loops);
  }
  /// Returns the positions in the buffer that the first `warp_size` threads of a block access, at most kMostLanes;
  /// those of all threads if the block has fewer. Only for GPU programs.
  std::span<const int64_t> lanes_of(const ProgramStatement& statement, const ProgramAccess& access,
                                    int64_t warp_size) const;
  /// Returns the product of the extents of a statement's loops; 1 without loops.
  double iterations(const ProgramStatement& statement) const;

  /// Sets derived members from the statements and accesses: which loops are reductions, which loops TVM unrolls (its
  /// UnrollLoop pass: serial loops from the innermost on, as long as at most unroll_limit assignments result), and
  /// which buffers are written and temporary.
  void finish();
};

/// Limit the number of statements of a program, and of loops around a statement, against hostile input.
constexpr size_t kMostStatements = 4096, kMostStatementLoops = 64;

}  // namespace foretime::data
