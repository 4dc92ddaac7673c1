#pragma once

#include <cstdint>
#include <vector>

#include "data/frontends/ansor/replay/loop_nest.h"

namespace foretime::data {

/// Describes an access of a stage over the variables of the loops around its statement, from which strides, footprints
/// and reuse are computed. An index that is not affine has floor divisions and similar operations among its atoms.
struct NestAccess {
  size_t memory = 0;             // ComputeDag::memory
  std::vector<Affine> indices;   // [dimensions] 0 for unknown ones
  std::vector<uint8_t> unknown;  // [dimensions] 1 if the index is not integer arithmetic
};

/// Computes the values of the axes of `stage` (spatial, then reduction) over the variables of its loops and the loops
/// around it.
void axis_values(LoopNest& nest, size_t stage, std::vector<Affine>& values);

/// Lists the element of tensor `output` that `stage` writes, then the elements that its new value reads, in the order
/// of the tensor's body. If the bodies are unknown, the first tensor reads the elements of all bodies; a tensor of a
/// tuple also reads other tensors of the stage. Inlined stages are replaced by their reads. Throws DataError above
/// 100,000 accesses.
void stage_accesses(LoopNest& nest, size_t stage, size_t output, std::vector<NestAccess>& accesses);

/// Describes one node of the program of a nest. The used fields depend on its kind.
struct NestNode {
  enum class Kind : uint8_t {
    allocation,  // memory of tensor `output` of `stage`, for all nodes below
    pragma,      // auto_unroll_max_step is `count` for all nodes below
    loop,        // loop with `variable`
    guard,       // runs the nodes below only if `value` < `bound` (if at_least is set: `value` >= 0)
    store,       // computes one element of tensor `output` of `stage`
  };
  Kind kind = Kind::store;
  bool initial = false;   // loop or store that initialises a reduction; its loops have separate variables
  bool update = false;    // store: update of a reduction, which reads the written element
  bool at_least = false;  // guard
  Annotation annotation = Annotation::none;  // loop
  int32_t parent = -1;                       // enclosing node; -1 at the outermost level
  int32_t stage = 0, output = 0;             // stage and tensor of the loop, memory, …
  int32_t variable = -1;                     // loop: its number in the pool
  int64_t count = 0;                         // pragma: value; allocation: elements; loop: largest number of iterations
  Affine extent{};          // loop: iterations, over outer loops if a reduction's length depends on the position
  Affine value{}, bound{};  // guard
  uint32_t axes = 0;        // store: start of its stage's values in NestStatements::axis_values
};

/// Holds the statements of a nest with the loops around them, in program order, as TVM's ScheduleOps makes them
/// (te/schedule, TVM 0.14) before flattening, unrolling and vectorising. Loops of one iteration are removed, except
/// loops run by a thread. Each computed tensor has one store, a reduction two; its initial store precedes the first
/// loop of the reduction. The stores of a stage's tensors are adjacent. Guards that bounds prove needless are omitted.
struct NestStatements {
  std::vector<NestNode> nodes;       // pre-order: parents precede their children
  std::vector<Affine> axis_values;   // values for stores: spatial axes, then reduction axes (0 in an initial store)
  std::vector<int32_t> shared_loop;  // [variables] loop of the same thread, whose variable replaces this one
};

/// Overwrites `statements`, reusing its memory; adds to the pool of `nest`. Loop variables are numbered as in
/// LoopNest::variables; those of a reduction's initial loops are increased by variables.size(). Throws DataError if
/// numbers leave 64 bits, or for more than kMostNestNodes nodes.
void nest_statements(LoopNest& nest, NestStatements& statements);

constexpr size_t kMostNestNodes = size_t{1} << 16;

}  // namespace foretime::data
