#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "data/frontends/ansor/records/record.h"
#include "data/frontends/ansor/replay/loop_nest.h"
#include "data/frontends/loops/loop_program.h"

namespace foretime::data {

ThreadAxis thread_axis(Annotation annotation);
/// Returns 0 for x, 1 for y, 2 for z.
size_t thread_dimension(Annotation annotation);

/// Writes the values of an index for the first threads of a block to `lanes`, x running first, with all variables that
/// are not bound to its threads set to 0. If the block has fewer threads than `lanes`, the rest is unchanged. Values
/// are limited to ± 2^50. Throws DataError if a value leaves 64 bits.
void lane_positions(const LoopNest& nest, const Affine& index, const ProgramKernel& kernel, std::span<int64_t> lanes);

}  // namespace foretime::data
