#pragma once

#include <cstdint>

#include "configs/settings.h"
#include "data/catalogue.h"

/// What a group costs, from its header alone: time of a draw, and bytes on the rank that trains on it.
namespace foretime::coordinator {

/// Bytes that a rank holds for one layout group, estimated. With C candidates, K configurable nodes, N nodes, E edges,
/// F node features, S = ceil(N / sampler.max_segment_nodes) segments (1 without segments), hidden width H, R readouts:
struct ResidentBytes {
  /// What the parts of a graph divide among themselves:
  ///   K C            layout codes
  ///   N (4 F + 9)    node features, type, state of the node
  ///   24 E           edges, and both directions as compressed rows (column and value)
  ///   4 S C H R      history: what the head reads of each segment and candidate (only with segments)
  double divided = 0;
  /// What each part has whole:
  ///   24 C           run times, speed ranks and the division of the candidates
  ///   8 n c H (l + e + 1)   activations and gradients of one draw: n nodes of the graph or of a segment, c candidates
  ///                         drawn, l message-passing layers, e dense layers before; without sharing of states
  double whole = 0;

  double total() const { return divided + whole; }
};

ResidentBytes estimate_resident_bytes(const data::GroupHeader& header, const configs::Settings& settings);

/// Parts that the group is cut into, so that none is above shard.max_rank_bytes: the smallest number that does it. 1
/// without a limit, and for tiles and tensor programs, whose graphs are small. It depends on the header and the
/// settings, never on the number of ranks. Throws configs::SettingsError where the limit cannot be met, saying which
/// setting to change: no segments, fewer segments than parts, or a limit below what every part has whole.
int64_t count_parts(const data::GroupHeader& header, const configs::Settings& settings);

/// Segments of a graph: at least this many, since none exceeds sampler.max_segment_nodes. 1 without segments.
int64_t least_segments(int64_t nodes, const configs::SamplerSettings& sampler);

/// Work of one training draw (of one part).
double estimate_draw_cost(const data::GroupHeader& header, const configs::Settings& settings);

}  // namespace foretime::coordinator
