#pragma once

#include <cstdint>
#include <vector>

#include "data/frontends/ansor/replay/loop_nest.h"

namespace foretime::data {

/// Describes an access of a stage: a tensor, and the element's indices over the variables of the loops around.
struct NestAccess {
  size_t memory = 0;             // number of the tensor (ComputeDag::memory)
  std::vector<Affine> indices;   // [dimensions of the tensor] 0 for an unknown index
  std::vector<uint8_t> unknown;  // [dimensions of the tensor] 1 if the index is not integer arithmetic
};

/// Overwrites `values` with the values of the axes of `stage` (spatial, then reduction) as expressions over the
/// variables of the stage's loops and of the loops around the stage.
void axis_values(LoopNest& nest, size_t stage, std::vector<Affine>& values);

/// Overwrites `accesses` with the element of tensor `output` that `stage` writes, then the elements that the new value
/// of this element reads, in the order of the tensor's body. If the bodies are unknown, the first tensor reads the
/// elements of all bodies. A tensor also reads other tensors of the stage that its combiner uses. Reads of an inlined
/// stage are replaced by that stage's reads. Throws DataError above 100,000 reads.
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
  bool at_least = false;  // guard: the condition is `value` >= 0
  Annotation annotation = Annotation::none;  // loop: how it is executed
  int32_t parent = -1;                       // index of the enclosing node; -1 at the outermost level
  int32_t stage = 0, output = 0;             // stage that the node belongs to; allocation, store: tensor of that stage
  int32_t variable = -1;                     // loop: number of its variable (nest_statements)
  int64_t count = 0;                         // pragma: value; allocation: elements; loop: largest number of iterations
  Affine extent{};          // loop: iterations, over outer loops if a reduction's length depends on the position
  Affine value{}, bound{};  // guard: sides of the condition
  uint32_t axes = 0;        // store: index in NestStatements::axis_values of the value of the stage's first axis
};

/// Holds the statements of a nest with the loops around them, in program order, as TVM's ScheduleOps makes them
/// (te/schedule, TVM 0.14) before flattening, unrolling and vectorising. Loops of one iteration are removed, except
/// loops run by a thread. Each computed tensor has one store, a reduction two; its initial store precedes the first
/// loop of the reduction. The stores of a stage's tensors are adjacent. Guards that bounds prove needless are omitted.
struct NestStatements {
  std::vector<NestNode> nodes;      // pre-order: parents precede their children
  std::vector<Affine> axis_values;  // axes of each store: spatial axes, then reduction axes (0 in an initial store)
  /// Holds for a variable whose loop is left out, since an outer loop is bound to the same thread, the variable of that
  /// loop; -1 for other variables: [variables]. Empty if no loop is left out.
  std::vector<int32_t> shared_loop;
};

/// Overwrites `statements` with those of `nest`; adds to the pool of `nest`. Loop variables have their indices in
/// LoopNest::variables as numbers; in the initial loops of a reduction, variables.size() is added. Throws DataError for
/// numbers beyond 2^62 and above kMostNestNodes nodes.
void nest_statements(LoopNest& nest, NestStatements& statements);

constexpr size_t kMostNestNodes = size_t{1} << 16;

}  // namespace foretime::data
