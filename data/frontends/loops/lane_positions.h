#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "data/frontends/ansor/records/record.h"
#include "data/frontends/ansor/replay/loop_nest.h"
#include "data/frontends/loops/loop_program.h"

namespace foretime::data {

/// Returns to what an annotation binds a loop: virtual threads, blocks, threads, or none of them.
ThreadAxis thread_axis(Annotation annotation);
/// Returns the dimension of a block or thread annotation: 0 for x, 1 for y, 2 for z; 0 for all other annotations.
size_t thread_dimension(Annotation annotation);

/// Writes the value of an index for each of the first threads of a block to `lanes`, threadIdx.x varying fastest. All
/// variables that are not bound to threads are 0. If the block has fewer threads than `lanes` has entries, the further
/// entries are unchanged. Values are limited to ± 2^50. Throws DataError if a number is beyond 2^62 on the way.
void lane_positions(const LoopNest& nest, const Affine& index, const ProgramKernel& kernel, std::span<int64_t> lanes);

}  // namespace foretime::data
