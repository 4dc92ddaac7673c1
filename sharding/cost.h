#pragma once

#include <cstdint>
#include <vector>

#include "configs/settings.h"
#include "data/dataset/group_files.h"

/// What a group costs, from its header alone: time of a sample, and bytes on the rank that trains on it.
namespace foretime::sharding {

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
  double whole = 0;
  /// What one sample needs while it is trained on:
  ///   16 H (s_0 + … + s_L)   values and gradients of its states, twice their estimate
  double sample = 0;

  double total() const { return divided + whole + sample; }
};

ResidentBytes estimate_resident_bytes(const data::GroupHeader& header, const configs::Settings& settings);

/// Parts that the group is cut into, so that none is above shard.max_rank_bytes: the smallest number that does it. 1
/// without a limit, and for tiles and tensor programs, whose graphs are small. It depends on the header and the
/// settings, never on the number of ranks. Throws configs::SettingsError where the limit cannot be met, saying which
/// setting to change: no segments, fewer segments than parts, or a limit below what every part needs whatever its size.
int64_t count_parts(const data::GroupHeader& header, const configs::Settings& settings);

/// Segments of a graph: at least this many, since none exceeds sampler.max_segment_nodes. 1 without segments.
int64_t least_segments(int64_t nodes, const configs::SamplerSettings& sampler);

/// Nodes that data.prune_hops leaves of a layout graph; all of them where it leaves the graph alone. Headers do not
/// tell where edges are, so this is an estimate: of N nodes with K configurable ones, k > 0 hops leave
///   N (1 - exp(-1.7 2^k K / N))
/// Fitted to the layout graphs of TpuGraphs at hand (372 to 21,918 nodes), k = 1 … 4: their exponents are 0.6 to 1.5
/// times this one. 0 hops leave K.
double estimate_kept_nodes(const data::GroupHeader& header, const configs::DataSettings& settings);

/// Distinct states of each level (0 … model.layers) of one training sample.
///
/// Layout: candidates share the states whose surroundings agree, so their number is far below N c (N nodes, c
/// candidates sampled) and grows slowly with both. Fitted to the layout files of TpuGraphs at hand (seven graphs of 372
/// to 21,918 nodes whose candidates differ, c = 8, 16, 64, 256; states counted exactly, equal ones of different nodes
/// as one):
///   s_l = exp(a_l) N^b_l c^d_l, at most N c, divided by the number of segments
///   level   a_l    b_l    d_l    residuals (factor: root mean square, least, largest)
///   0       4.086  0.270  0.034  1.27  0.74  1.59
///   1       4.649  0.279  0.136  1.26  0.71  1.59
///   2       5.030  0.243  0.305  1.24  0.71  1.52
///   3       4.631  0.295  0.520  1.22  0.72  1.53
///   4       4.345  0.341  0.695  1.25  0.66  1.59
/// Deeper levels grow as level 4 does over level 3. The number of configurable nodes adds nothing that the fit could
/// tell from the number of nodes. Pruned graphs count as graphs of the nodes that are left (estimate_kept_nodes);
/// counted on three of the files with 1 … 4 hops there are 0.4 to 1.8 times as many.
/// Segments: the mean over the contiguous segments (500, 1,000 and 5,000 nodes) of a graph follows the inverse of their
/// number (exponents 0.8 to 1.2); single segments have up to five times the mean.
/// Tiles: every node of every candidate. Programs: every node of the sampled graphs.
/// `samples`: of that many samples in one batch together.
std::vector<double> estimate_states(const data::GroupHeader& header, const configs::Settings& settings,
                                    double samples = 1);

/// Work of one training sample (of one part), in multiplications: for each state of level 0 the dense layers that make
/// it, for each state above two products with H x H matrices and its messages (3.7 a state in both directions together
/// where states are shared, as counted on the same files; else 2 E / N), each H wide and counted four times, since
/// gathering is bound by memory.
double estimate_sample_cost(const data::GroupHeader& header, const configs::Settings& settings, double samples = 1);

/// The exponent x for which n samples of a group in one batch on one rank cost about n^x times what one does: the law
/// of estimate_states at n = 1 and 8. Without segments, samples of a layout graph share most of their states (residual
/// GCN 2 x 32, 16 candidates: x = 0.26); samples of segments, tiles and programs share none that headers tell of (x =
/// 1).
double estimate_sharing(const data::GroupHeader& header, const configs::Settings& settings);

}  // namespace foretime::sharding
