#pragma once

#include <cstdint>
#include <vector>

#include "data/frontends/ansor/replay/loop_nest.h"

namespace foretime::data {

/// Where a stage reads or writes, over the variables of the loops around its statement: what strides, footprints and
/// reuse are computed from. An index that is not affine has floor divisions and the like among its atoms.
struct NestAccess {
  size_t memory = 0;             // ComputeDag::memory
  std::vector<Affine> indices;   // one a dimension; of unknown ones the value is 0
  std::vector<uint8_t> unknown;  // a dimension whose index is no arithmetic of integers
};

/// The values of the axes of `stage` (spatial, then reduction) over the variables of its loops and of those around it.
void axis_values(LoopNest& nest, size_t stage, std::vector<Affine>& values);

/// The element of its tensor `output` that `stage` writes, then all elements that its new value is made of: what the
/// body of this tensor reads, in the order of the body (of all bodies, for the first tensor, where they are not known);
/// of a tuple, also of other tensors of the stage. Stages inlined into it are looked through. Throws DataError where
/// there are more than 100,000.
void stage_accesses(LoopNest& nest, size_t stage, size_t output, std::vector<NestAccess>& accesses);

/// One node of the program that a nest stands for. Which fields it uses depends on its kind.
struct NestNode {
  enum class Kind : uint8_t {
    allocation,  // the memory of tensor `output` of `stage`, for everything below
    pragma,      // auto_unroll_max_step is `count` below
    loop,        // over `variable`
    guard,       // runs what is below only if `value` < `bound` (or, where at_least is set, `value` >= 0)
    store,       // one element of tensor `output` of `stage` is computed
  };
  Kind kind = Kind::store;
  bool initial = false;   // a loop or store of the start of a reduction; it has loop variables of its own
  bool update = false;    // store: into a reduction, which reads what it writes
  bool at_least = false;  // guard
  Annotation annotation = Annotation::none;  // loop
  int32_t parent = -1;                       // the node around it, -1 at the outermost level
  int32_t stage = 0, output = 0;             // whose loop, memory, ...
  int32_t variable = -1;                     // loop: as the pool numbers it
  int64_t count = 0;                         // pragma: its value; allocation: elements; loop: most iterations
  Affine extent{};          // loop: iterations; over loops around it where a reduction's length depends on the place
  Affine value{}, bound{};  // guard
  uint32_t axes = 0;        // store: NestStatements::axis_values from here on are those of its stage
};

/// The statements of a nest with the loops around them, as TVM's ScheduleOps makes them (te/schedule, TVM 0.14), in
/// program order: what a compiler would be given, before anything is flattened, unrolled or vectorised. Loops of one
/// iteration are gone, save where a thread runs them. Each computed tensor has one store, a reduction two: its start
/// stands before the first loop that belongs to the reduction. The stores of a stage's tensors stand side by side.
/// Guards that bounds prove needless are left out.
struct NestStatements {
  std::vector<NestNode> nodes;       // in pre-order: a parent stands before its children
  std::vector<Affine> axis_values;   // of stores: spatial axes, then reduction axes (0 in an initial store)
  std::vector<int32_t> shared_loop;  // [variables] the loop whose variable this one has: that of the same thread
};

/// Overwrites `statements`, using its memory again; adds to the pool of `nest`. Variables of loops are numbered as in
/// LoopNest::variables; those of a reduction's initial loops are their numbers plus variables.size(). Throws DataError
/// where numbers leave 64 bits, or where there are more than kMostNestNodes nodes.
void nest_statements(LoopNest& nest, NestStatements& statements);

constexpr size_t kMostNestNodes = size_t{1} << 16;

}  // namespace foretime::data
