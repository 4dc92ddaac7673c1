#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "data/graphs/group.h"
#include "data/graphs/group_header.h"
#include "data/graphs/pruning.h"
#include "plans/message_plan.h"
#include "plans/symbolic_plan.h"

namespace foretime::plans {

/// The weighted adjacency [nodes, nodes] of one relation: an entry (target v, source u) for each node u whose message v
/// receives. `sources` and `targets` are the edges' ends, node ids in [first_node, first_node + nodes).
///
/// Columns ascend within a row. Parallel edges become one entry whose value is the sum of theirs; the degree counts
/// each of them, and the self loop. degree(v) is v's row (messages received), degree(u) is u's column (messages sent),
/// so that Direction::both gives the symmetric D^-1/2 (A + A^T + I) D^-1/2 and a node without edges has an empty row,
/// never NaN.
///
/// Of EdgeNorm::laplacian each graph has its own λmax: graph g holds the nodes from graph_ptr[g] - graph_ptr[0] on; no
/// graph_ptr: one graph. Throws DataError where a Laplacian is not of both directions and without self loop.
CsrMatrix relation_matrix(int64_t first_node, int64_t nodes, std::span<const int32_t> sources,
                          std::span<const int32_t> targets, const RelationSpec& relation,
                          std::span<const int64_t> graph_ptr = {});

/// The largest eigenvalue of I - S, S a symmetric matrix with eigenvalues from -1 to 1, by power iteration from a fixed
/// vector, to about three digits: it is a scale, and iteration comes to it from below. Rows [first, last) of S, whose
/// columns lie in the same range. 1 where S is zero.
double largest_laplacian_eigenvalue(const CsrMatrix& symmetric, int64_t first, int64_t last);

/// The adjacency of all graphs of a group, block-diagonal, under each relation of a request. It depends on neither
/// candidates nor weights: whoever plans a group again and again makes it once and hands it to PlanBuilder::add.
struct GroupTopology {
  std::vector<CsrMatrix> relations;  // [nodes, nodes] each, in the order of PlanRequest::relations
};

std::shared_ptr<const GroupTopology> make_topology(const data::Group& group, const PlanRequest& request);

/// Some nodes of a layout group's graph, and where each is pooled.
struct NodeSubset {
  std::span<const int32_t> nodes;  // ascending; empty: all
  std::span<const int32_t> pool;   // [nodes] 0 … pools - 1; empty: all 0
  int64_t pools = 1;
};

/// All that the plans of one group have in common, whatever candidates they hold: made once for each group and request.
struct PlanSource {
  PlanRequest request;
  std::shared_ptr<const GroupTopology> topology;  // tile and program groups, and layout groups without sharing
  std::shared_ptr<const SymbolicPlan> symbolic;   // layout groups whose states are shared
};

std::shared_ptr<const PlanSource> make_plan_source(const data::Group& group, const PlanRequest& request);

/// What make_plan_source may do once for a layout graph whose candidates come later, some at a time: all configurable
/// nodes count as varying. Null where the request does not share states, or ties nodes by their layouts.
std::shared_ptr<const PlanSource> prepare_plan_source(const data::Group& group, const PlanRequest& request);

/// The source of some candidates of a graph that was prepared: a tenth of make_plan_source's work. Plans find what
/// candidates share one by one rather than class by class, so it is for a few of them.
std::shared_ptr<const PlanSource> complete_plan_source(const PlanSource& prepared,
                                                       const data::LayoutCandidates& layout);

/// The plan source of a group that was opened by `header` and pruned to `prune_hops` (pruning.h): read where the packed
/// collection has a symbolic plan for this request (symbolic_plan_from_bytes), else made. Throws DataError where a
/// stored one is damaged.
std::shared_ptr<const PlanSource> load_plan_source(const data::GroupHeader& header, const data::Group& group,
                                                   const PlanRequest& request, int64_t prune_hops = data::kNoPruning);

/// Plans of a part of a layout group: the subgraph that the nodes induce, with degrees and weights of its own. Edges
/// that leave the subset carry nothing. Throws DataError where the group is not a layout group, the request does not
/// share, or the subset is not ascending, empty or in range.
std::shared_ptr<const PlanSource> make_plan_source(const data::Group& group, const PlanRequest& request,
                                                   const NodeSubset& subset);

/// A part of a graph as a group of its own, with copied arrays: the reference implementation of a subset. A part
/// without configurable nodes keeps its candidates.
data::Group induced_group(const data::Group& group, std::span<const int32_t> nodes);

// Candidates in pieces, for scoring many of them in bounded memory.

/// How many candidates are planned at once, so that a plan has about `max_states` states (one candidate at the least).
/// What states are shared is known only when a plan is there: each piece tells the size of the next.
class PieceSize {
 public:
  PieceSize(const data::Group& group, const PlanSource& source, int64_t max_states);

  int64_t candidates() const { return candidates_; }
  void observe(const MessagePlan& plan);

  /// What a plan takes, in states.
  static int64_t load(const MessagePlan& plan);

 private:
  int64_t limit_, candidates_;
  bool shares_;
};

/// Plans the candidates of a group in such pieces and calls `visit` with each, in the order of the candidates.
void for_each_plan(const data::Group& group, const std::shared_ptr<const PlanSource>& source,
                   std::span<const int64_t> candidates, int64_t max_states,
                   const std::function<void(const MessagePlan& plan)>& visit);

/// Some candidates of a layout group whose states are shared. The arrays are the group's.
struct SharedEntry {
  data::GraphBlock graphs;
  data::LayoutCandidates layout;
  std::vector<int64_t> candidates;
  std::shared_ptr<const SymbolicPlan> symbolic;
  data::Collection collection = data::Collection::none;
};

/// Inputs, levels, layers and readout of the plan that shares states among all entries, of whatever groups; group_ptr
/// is left to the caller. Entries of one symbolic plan count as one set of candidates. Throws DataError where a level
/// would have more than 2^31 - 1 states.
void fill_shared_plan(const std::vector<SharedEntry>& entries, const PlanRequest& request, MessagePlan& plan);

}  // namespace foretime::plans
