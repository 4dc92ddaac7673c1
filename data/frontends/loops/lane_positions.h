#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "data/frontends/ansor/records/record.h"
#include "data/frontends/ansor/replay/loop_nest.h"
#include "data/frontends/loops/loop_program.h"

namespace foretime::data {

ThreadAxis thread_axis(Annotation annotation);
/// 0 for x, 1 for y, 2 for z.
size_t thread_dimension(Annotation annotation);

/// The values of an index for the first threads of a block, x running first, where all variables that are not bound to
/// its threads are 0: one for each of `lanes`, as many as the block has threads; the rest stays as it is. Values are
/// cut at ± 2^50. Throws DataError where a value leaves 64 bits.
void lane_positions(const LoopNest& nest, const Affine& index, const ProgramKernel& kernel, std::span<int64_t> lanes);

}  // namespace foretime::data
