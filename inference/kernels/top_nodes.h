#pragma once

#include <cstdint>
#include <span>

/// The choice of TopK pooling (models/topk_pool.h), graph by graph.
namespace foretime::inference {

/// ceil(ratio * nodes), at least 1 of any nodes; taken as whole where only rounding keeps it from being so.
int64_t kept_nodes(int64_t nodes, double ratio);

/// Writes the ids, from `first` on, of the `count` best of a graph's scores, ascending. Scores nearer to each other
/// than `tie_part` of the largest are ties, and of tied nodes the first ones stay. No score is NaN.
void choose_nodes(std::span<const double> scores, int64_t count, double tie_part, int64_t first, int64_t* kept);

}  // namespace foretime::inference
