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

/// How a loop is executed; the numbers are those of TIR's ForKind.
enum class LoopKind : uint8_t { serial, parallel, vectorized, unrolled, thread };
constexpr size_t kLoopKinds = 5;

/// What a loop of kind thread is bound to.
enum class ThreadAxis : uint8_t { none, virtual_thread, block, thread };

/// A loop around a statement. Loops of extent 1 are left out; so a loop of extent 1 is one of a GPU program that does
/// not repeat this statement: the threads that it stands for are those of a loop inside of it (several stages of a
/// kernel use one threadIdx.x), or virtual threads that share what the statement writes.
struct ProgramLoop {
  int64_t extent = 1;
  LoopKind kind = LoopKind::serial;
  int32_t id = 0;          // two statements in one loop have it with one id
  bool unrolled = false;   // so annotated, or unrolled by auto_unroll_max_step
  bool reduction = false;  // the statement adds to the same elements in each iteration
  ThreadAxis axis = ThreadAxis::none;
};
/// Whether iterations run on different cores, or on different multiprocessors.
inline bool runs_in_parallel(const ProgramLoop& loop) {
  return loop.kind == LoopKind::parallel || loop.axis == ThreadAxis::block;
}

/// Operations on values, as opposed to those on indices and in conditions (of which compilers prove many): of the
/// latter only the select counts.
enum class Arithmetic : uint8_t { add, multiply, divide, minmax, select, call, cast };
constexpr size_t kArithmetic = 7;
/// What an operation of this kind does with values; empty for those that do nothing.
std::optional<Arithmetic> arithmetic_of(ExpressionKind kind);

/// What an access does as one loop of its statement advances. All counts are of elements.
struct LoopAccess {
  int64_t stride = 0;      // between the first two iterations, in the buffer's row-major order
  double distinct = 1.0;   // that this loop alone reaches
  double footprint = 1.0;  // that this loop and all loops inside of it reach
  double lines = 1.0;      // likewise, cache lines of 64 bytes
};

/// One access of a statement.
struct ProgramAccess {
  int32_t buffer = 0;
  uint32_t first = 0;  // in LoopProgram::strides, one for each loop of the statement, outermost first
};

/// An assignment, with the loops around it.
struct ProgramStatement {
  uint32_t first_loop = 0, loops = 0;       // in LoopProgram::loops, outermost first
  uint32_t first_access = 0, accesses = 0;  // in LoopProgram::accesses; the first one is the store
  std::array<int32_t, kArithmetic> arithmetic{};
  int64_t unroll_limit = 0;  // auto_unroll_max_step, 0: none
  bool initial = false;      // writes a constant: what a reduction starts from
  bool update = false;       // reads what it writes; that load is no access of its own here
  int32_t kernel = 0;        // of a GPU program, in LoopProgram::kernels
};

/// Where a GPU program keeps a buffer: for all threads, for those of a block, or for one (in its registers).
enum class BufferScope : uint8_t { global, shared, local };
constexpr size_t kBufferScopes = 3;

struct ProgramBuffer {
  int64_t elements = 1;
  int32_t element_bytes = 4;
  bool written = false;    // by some statement
  bool temporary = false;  // one statement writes it, another one reads it
  BufferScope scope = BufferScope::global;
};

/// Threads that a GPU program starts at once: the statements of one stage at root and of all that is attached to it.
struct ProgramKernel {
  int64_t blocks = 1, virtual_threads = 1;
  std::array<int64_t, 3> threads = {1, 1, 1};  // of a block: threadIdx.x, y, z

  int64_t block_threads() const { return threads[0] * threads[1] * threads[2]; }
};

/// Lanes of a warp that LoopProgram::lanes holds for each access: 32 of NVIDIA's GPUs, 64 of AMD's.
constexpr size_t kMostLanes = 64;

/// A scheduled tensor program as its assignments, in the order in which they run: what matters of a loop nest to a cost
/// model, whether it came from a tuning record or from a syntax tree. Arrays keep their memory over clear().
struct LoopProgram {
  std::vector<ProgramStatement> statements;
  std::vector<ProgramLoop> loops;
  std::vector<ProgramAccess> accesses;
  std::vector<LoopAccess> strides;
  std::vector<ProgramBuffer> buffers;
  std::vector<ProgramKernel> kernels;  // empty: not a program for GPUs
  /// Of a GPU program, for each access kMostLanes positions in its buffer: those of the first threads of the first
  /// block in the first iteration of all other loops. A block with fewer threads has no more positions than threads.
  std::vector<int64_t> lanes;

  bool is_gpu() const { return !kernels.empty(); }
  void clear();
  std::span<const ProgramLoop> loops_of(const ProgramStatement& statement) const {
    return std::span(loops).subspan(statement.first_loop, statement.loops);
  }
  std::span<const ProgramAccess> accesses_of(const ProgramStatement& statement) const {
    return std::span(accesses).subspan(statement.first_access, statement.accesses);
  }
  /// One entry for each loop of the statement, outermost first.
  std::span<const LoopAccess> strides_of(const ProgramStatement& statement, const ProgramAccess& access) const {
    return std::span(strides).subspan(access.first, statement.loops);
  }
  /// Positions of the first `warp_size` threads of a block (fewer where it has fewer); of GPU programs.
  std::span<const int64_t> lanes_of(const ProgramStatement& statement, const ProgramAccess& access,
                                    int64_t warp_size) const;
  /// Product of the extents of a statement's loops.
  double iterations(const ProgramStatement& statement) const;

  /// Sets what follows from the rest: which loops are reductions, which ones TVM unrolls (its UnrollLoop pass: serial
  /// loops from the innermost on, as long as no more than unroll_limit assignments result), which buffers are
  /// temporary.
  void finish();
};

/// Largest programs: what hostile input may make.
constexpr size_t kMostStatements = 4096, kMostStatementLoops = 64;

}  // namespace foretime::data
