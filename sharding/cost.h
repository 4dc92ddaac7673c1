#pragma once

#include <cstdint>
#include <vector>

#include "configs/settings.h"
#include "data/dataset/group_files.h"

/// Estimates the costs of a group from its header alone: work of a sample, and bytes on the rank that trains on it.
namespace foretime::sharding {

/// Holds the estimated bytes of a layout group on a rank. C is the number of candidates, K of configurable nodes, N of
/// nodes and E of edges (after pruning), F of node features, S of segments, R of readouts; H is the hidden width:
struct ResidentBytes {
  /// Bytes that are divided among the parts of a graph:
  ///   K C            layout codes
  ///   N (4 F + 9)    node features, type, state of the node
  ///   24 E           edges, and both directions as compressed rows (column and value)
  ///   4 S C H R      history: inputs of the head for each segment and candidate (only with sampler.max_segment_nodes)
  double divided = 0;
  /// Bytes that each part needs:
  ///   24 C           run times, speed ranks and the division of the candidates
  double whole = 0;
  /// Bytes of one sample during its training step, where s_l is the estimate of estimate_states for level l:
  ///   16 H (s_0 + … + s_L)   float32 values and gradients of twice as many states as estimated
  double sample = 0;

  /// Returns the bytes of a rank that has the whole graph.
  double total() const { return divided + whole + sample; }
};

/// Estimates the bytes for one layout group from its header.
ResidentBytes estimate_resident_bytes(const data::GroupHeader& header, const configs::Settings& settings);

/// Returns the smallest number of parts of a layout graph such that no part needs more than shard.max_rank_bytes.
/// Returns 1 without a limit, and for tiles and tensor programs. The result does not depend on the number of ranks.
/// Throws configs::SettingsError, naming the setting to change, if the limit cannot be met: the settings make no
/// segments, or fewer segments than parts are needed, or every part alone exceeds the limit.
int64_t count_parts(const data::GroupHeader& header, const configs::Settings& settings);

/// Returns the smallest number of segments with at most sampler.max_segment_nodes nodes each that a graph of `nodes`
/// nodes can be cut into; at least 1, and 1 if max_segment_nodes is 0.
int64_t least_segments(int64_t nodes, const configs::SamplerSettings& sampler);

/// Estimates the number of nodes that data.prune_hops leaves of a graph. Returns all nodes without pruning, for other
/// kinds than layouts and for graphs without configurable nodes. Headers do not contain edges, so this is an estimate:
/// of N nodes with K configurable ones, 0 hops leave K, and k > 0 hops leave at least K and at most N:
///   N (1 - exp(-1.7 2^k K / N))
/// The formula was fitted to layout graphs of TpuGraphs, k = 1 … 4; measured exponents are 0.6 to 1.5 times as large.
double estimate_kept_nodes(const data::GroupHeader& header, const configs::DataSettings& settings);

/// Estimates the distinct states of each level (0 … model.layers) of `samples` training samples in one batch.
///
/// Layout: candidates share the states whose surroundings agree, so there are far fewer than N c (N nodes, c candidates
/// sampled), and their number grows slowly with both. It was fitted to layout files of TpuGraphs (seven graphs of 372
/// to 21,918 nodes, c = 8, 16, 64, 256; states counted exactly, equal states of different nodes once):
///   s_l = exp(a_l) N^b_l c^d_l, at most N c, divided by the number of segments
///   level   a_l    b_l    d_l    residuals (factor: root mean square, least, largest)
///   0       4.086  0.270  0.034  1.27  0.74  1.59
///   1       4.649  0.279  0.136  1.26  0.71  1.59
///   2       5.030  0.243  0.305  1.24  0.71  1.52
///   3       4.631  0.295  0.520  1.22  0.72  1.53
///   4       4.345  0.341  0.695  1.25  0.66  1.59
/// Deeper levels grow as level 4 does over level 3. The number of configurable nodes did not improve the fit. Pruned
/// graphs count as graphs with the remaining nodes (estimate_kept_nodes); counts in three of the files with 1 … 4 hops
/// are 0.4 to 1.8 times the estimate. Segments: the mean over the contiguous segments (500, 1,000 and 5,000 nodes) of a
/// graph is inversely proportional to their number (exponents 0.8 to 1.2); single segments have up to five times the
/// mean. Tiles: every node of every candidate. Programs: every node of the sampled graphs.
std::vector<double> estimate_states(const data::GroupHeader& header, const configs::Settings& settings,
                                    double samples = 1);

/// Estimates the work of `samples` training samples of one part in one batch, in multiplications. A state of level 0
/// costs the dense layers of the encoder. A state of a higher level costs two products with H x H matrices, and its
/// messages, each H wide and counted four times, since gathering is bound by memory. A state has 3.7 messages in
/// layouts, as counted on the files of estimate_states, and 2 E / N in other kinds.
double estimate_sample_cost(const data::GroupHeader& header, const configs::Settings& settings, double samples = 1);

/// Returns the exponent x, from 0 to 1, such that n samples of a group in one batch on one rank cost about n^x times
/// one sample, from estimate_sample_cost at n = 1 and 8. Samples of a layout graph in one segment share most states
/// (residual GCN 2 x 32, 16 candidates: x = 0.26). Returns 1 for graphs in several segments, tiles and programs.
double estimate_sharing(const data::GroupHeader& header, const configs::Settings& settings);

}  // namespace foretime::sharding
