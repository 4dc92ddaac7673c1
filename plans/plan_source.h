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

/// Returns the weighted adjacency [nodes, nodes] of one relation, with an entry (target v, source u) for each node u
/// whose message v receives. `sources` and `targets` are the edges' ends, node ids in [first_node, first_node + nodes).
///
/// Columns ascend within a row. Parallel edges become one entry with the sum of their values; the degree counts each of
/// them, and the self loop. degree(v) is the degree of v's row (received messages), degree(u) that of u's column (sent
/// messages), so that Direction::both gives the symmetric D^-1/2 (A + A^T + I) D^-1/2, and a node without edges has an
/// empty row, never NaN.
///
/// For EdgeNorm::laplacian each graph has a separate λmax: graph g holds the nodes from graph_ptr[g] - graph_ptr[0] on;
/// an empty graph_ptr means one graph. Throws DataError for a Laplacian of one direction or with a self loop.
CsrMatrix relation_matrix(int64_t first_node, int64_t nodes, std::span<const int32_t> sources,
                          std::span<const int32_t> targets, const RelationSpec& relation,
                          std::span<const int64_t> graph_ptr = {});

/// Returns the largest eigenvalue of I - S for rows [first, last) of S, a symmetric matrix with eigenvalues from -1 to
/// 1 whose columns are in the same range. Power iteration from a fixed vector gives about three digits from below,
/// enough for a scale. Returns 1 if S is zero.
double largest_laplacian_eigenvalue(const CsrMatrix& symmetric, int64_t first, int64_t last);

/// Holds the adjacency of all graphs of a group, block-diagonal, for each relation of a request. It depends on neither
/// candidates nor weights, so it can be made once and passed to PlanBuilder::add for each plan of the group.
struct GroupTopology {
  std::vector<CsrMatrix> relations;  // [nodes, nodes] each, in the order of PlanRequest::relations
};

/// Makes the adjacency of a group.
std::shared_ptr<const GroupTopology> make_topology(const data::Group& group, const PlanRequest& request);

/// Describes some nodes of a layout group's graph, and the pool of each.
struct NodeSubset {
  std::span<const int32_t> nodes;  // ascending; empty: all
  std::span<const int32_t> pool;   // [nodes] 0 … pools - 1; empty: all 0
  int64_t pools = 1;
};

/// Holds the parts that all plans of one group share, whatever candidates they have: made once for each group and
/// request.
struct PlanSource {
  PlanRequest request;
  std::shared_ptr<const GroupTopology> topology;  // tile and program groups, and layout groups without sharing
  std::shared_ptr<const SymbolicPlan> symbolic;   // layout groups whose states are shared
};

/// Makes the plan source of a whole group.
std::shared_ptr<const PlanSource> make_plan_source(const data::Group& group, const PlanRequest& request);

/// Prepares the plan source of a layout graph whose candidates come later, in several calls: all configurable nodes
/// count as varying. Returns null if the request does not share states, or uses decision weights, which depend on
/// layouts.
std::shared_ptr<const PlanSource> prepare_plan_source(const data::Group& group, const PlanRequest& request);

/// Completes a prepared plan source for some candidates, in a tenth of make_plan_source's time. Plans then compare
/// candidates one by one rather than by classes, so it suits small numbers of candidates.
std::shared_ptr<const PlanSource> complete_plan_source(const PlanSource& prepared,
                                                       const data::LayoutCandidates& layout);

/// Makes the plan source of the subgraph that `subset` induces, with its own degrees and weights. Edges that leave the
/// subset are ignored. Throws DataError if the group is not a layout group, the request does not share, or the subset
/// is not ascending, empty or out of range.
std::shared_ptr<const PlanSource> make_plan_source(const data::Group& group, const PlanRequest& request,
                                                   const NodeSubset& subset);

/// Returns the induced subgraph as a separate group with copied arrays: the reference implementation of a subset. A
/// subgraph without configurable nodes keeps its candidates.
data::Group induced_group(const data::Group& group, std::span<const int32_t> nodes);

// Candidates in pieces, for scoring many of them in bounded memory.

/// Chooses the number of candidates to plan at once, so that a plan has about `max_states` states (at least one
/// candidate). The number of shared states is known only after planning, so each piece determines the size of the next.
class PieceSize {
 public:
  PieceSize(const data::Group& group, const PlanSource& source, int64_t max_states);

  int64_t candidates() const { return candidates_; }
  /// Adapts the number of candidates to the size of the last plan.
  void observe(const MessagePlan& plan);

  /// Returns the size of a plan, in states.
  static int64_t load(const MessagePlan& plan);

 private:
  int64_t limit_, candidates_;
  bool shares_;
};

/// Plans the candidates of a group in pieces and calls `visit` with each, in the order of the candidates.
void for_each_plan(const data::Group& group, const std::shared_ptr<const PlanSource>& source,
                   std::span<const int64_t> candidates, int64_t max_states,
                   const std::function<void(const MessagePlan& plan)>& visit);

/// Holds some candidates of a layout group whose states are shared. The arrays are the group's.
struct SharedEntry {
  data::GraphBlock graphs;
  data::LayoutCandidates layout;
  std::vector<int64_t> candidates;
  std::shared_ptr<const SymbolicPlan> symbolic;
  data::Collection collection = data::Collection::none;
};

/// Fills inputs, levels, layers and readout of the plan that shares states among all entries, also of different groups;
/// the caller fills group_ptr. Entries of one symbolic plan count as one set of candidates. Throws DataError if a level
/// would have more than 2^31 - 1 states.
void fill_shared_plan(const std::vector<SharedEntry>& entries, const PlanRequest& request, MessagePlan& plan);

}  // namespace foretime::plans
