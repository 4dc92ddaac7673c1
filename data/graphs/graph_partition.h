#pragma once

#include <cstdint>
#include <vector>

#include "data/graphs/group.h"

namespace foretime::data {

/// Divides the nodes [first, last) of the first graph into parts of at most `max_nodes` nodes with few edges between
/// them: METIS's k-way partition (Karypis and Kumar 1998) with a fixed seed, then, since METIS balances only nearly,
/// nodes move from parts that are too large to others with room, those first that cost the fewest cut edges. Edges that
/// leave the range do not count. Gives the part of each node; some parts may be empty. The same input gives the same
/// parts. Throws DataError where METIS fails.
std::vector<int32_t> partition_nodes(const GraphBlock& graphs, int64_t first, int64_t last, int64_t max_nodes);

}  // namespace foretime::data
