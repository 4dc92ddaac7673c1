#pragma once

#include <cstdint>
#include <vector>

#include "data/frontends/ansor/replay/loop_nest.h"

namespace foretime::data {

/// Where a stage reads or writes, over the variables of the loops around its statement: what strides, footprints and
/// reuse are computed from. An index that is not affine has floor divisions and the like among its atoms.
struct NestAccess {
  size_t stage = 0;              // whose memory
  std::vector<Affine> indices;   // one a dimension; of unknown ones the value is 0
  std::vector<uint8_t> unknown;  // a dimension whose index is no arithmetic of integers
};

/// The values of the axes of `stage` (spatial, then reduction) over the variables of its loops and of those around it.
void axis_values(LoopNest& nest, size_t stage, std::vector<Affine>& values);

/// The element that `stage` writes, then all elements that its body reads, in the order of the body; stages inlined
/// into it are looked through. Throws DataError where there are more than 100,000.
void stage_accesses(LoopNest& nest, size_t stage, std::vector<NestAccess>& accesses);

}  // namespace foretime::data
