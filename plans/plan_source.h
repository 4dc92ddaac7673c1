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

/// Returns the weighted adjacency [nodes, nodes] of one relation: row v has an entry in column u if node v receives a
/// message of node u. `sources` and `targets` are the ends of the edges; row 0 is node first_node.
///
/// Columns ascend within a row. Parallel edges become one entry with the sum of their values; degrees count each of the
/// parallel edges, and the self loop. degree(v) counts the messages that v receives, degree(u) those that u sends, so
/// that Direction::both gives the symmetric D^-1/2 (A + A^T + I) D^-1/2. A node without edges and self loop has an
/// empty row. Throws BrokenInvariant for a Laplacian of one direction or with a self loop.
CsrMatrix relation_matrix(int64_t first_node, int64_t nodes, std::span<const int32_t> sources,
                          std::span<const int32_t> targets, const RelationSpec& relation);

/// Holds the adjacency of all graphs of a group, as one block-diagonal matrix for each relation of a request. It is the
/// same for all candidates and all weights of the model, so it is made once for a group and a request.
struct GroupTopology {
  std::vector<CsrMatrix> relations;  // [nodes, nodes] each, in the order of PlanRequest::relations
};

/// Makes the adjacency of a group for the relations of `request`.
std::shared_ptr<const GroupTopology> make_topology(const data::Group& group, const PlanRequest& request);

/// Describes some nodes of a layout group's graph, and the readout pool of each.
struct NodeSubset {
  std::span<const int32_t> nodes;  // ids in the graph, ascending; empty: all nodes
  std::span<const int32_t> pool;   // [nodes] pool of each node, from 0 to pools - 1; empty: all nodes are in pool 0
  int64_t pools = 1;
};

/// Holds the parts that all plans of one group and request share, whatever candidates the plans have.
struct PlanSource {
  PlanRequest request;
  std::shared_ptr<const GroupTopology> topology;  // null for layout groups whose states are shared
  std::shared_ptr<const SymbolicPlan> symbolic;   // null except for layout groups whose states are shared
};

/// Makes the plan source of a whole group.
std::shared_ptr<const PlanSource> make_plan_source(const data::Group& group, const PlanRequest& request);

/// Prepares the plan source of a layout graph whose layouts are not known yet, for complete_plan_source: all
/// configurable nodes count as varying. Returns null for other kinds of groups, and if the request shares no states or
/// uses decision weights (PlanRequest::tied), which depend on layouts.
std::shared_ptr<const PlanSource> prepare_plan_source(const data::Group& group, const PlanRequest& request);

/// Returns the plan source for the candidates of `layout` from that of prepare_plan_source, in a tenth of the time of
/// make_plan_source. Planning is slower, as all configurable nodes vary, so this suits few candidates.
std::shared_ptr<const PlanSource> complete_plan_source(const PlanSource& prepared,
                                                       const data::LayoutCandidates& layout);

/// Makes the plan source of the subgraph that `subset` induces. Degrees and weights are those of the subgraph; edges to
/// other nodes are ignored. Throws BrokenInvariant if the group is not a layout group, the request shares no states,
/// the nodes do not ascend, a node or pool is out of range, or the number of pool entries is not the number of nodes.
std::shared_ptr<const PlanSource> make_plan_source(const data::Group& group, const PlanRequest& request,
                                                   const NodeSubset& subset);

/// Returns the subgraph that `nodes` induce in a layout group as a separate group with copied arrays: the reference for
/// a NodeSubset. It has all candidates of the group. Throws BrokenInvariant for another kind or invalid nodes.
data::Group induced_group(const data::Group& group, std::span<const int32_t> nodes);

// Plans of some candidates at a time, for scoring many candidates in bounded memory.

/// Chooses the number of candidates to plan at once, so that a plan has about `max_states` states; it is at least 1.
/// The number of shared states is known only after planning, so each plan determines the size of the next.
class PieceSize {
 public:
  PieceSize(const data::Group& group, const PlanSource& source, int64_t max_states);

  /// Returns the number of candidates of the next plan.
  int64_t candidates() const { return candidates_; }
  /// Adapts the number of candidates to the size of the last plan; without shared states the number stays.
  void observe(const MessagePlan& plan);

  /// Returns the size of a plan: states of its largest level or, if more, a 16th of the last readout stage's entries.
  static int64_t load(const MessagePlan& plan);

 private:
  int64_t limit_, candidates_;
  bool shares_;
};

/// Plans the candidates of a group in pieces (PieceSize), in order, and calls `visit` with the plan of each piece.
void for_each_plan(const data::Group& group, const std::shared_ptr<const PlanSource>& source,
                   std::span<const int64_t> candidates, int64_t max_states,
                   const std::function<void(const MessagePlan& plan)>& visit);

/// Holds some candidates of a layout group whose states are shared. The arrays share the group's memory.
struct SharedEntry {
  data::GraphBlock graphs;
  data::LayoutCandidates layout;
  std::vector<int64_t> candidates;
  std::shared_ptr<const SymbolicPlan> symbolic;
  data::Collection collection = data::Collection::none;
};

/// Fills inputs, levels, layers and readout of `plan`, which shares states among all entries, also of different groups.
/// The caller fills group_ptr and feature_count. Throws DataError if a level has more than 2^31 - 9 states.
void fill_shared_plan(const std::vector<SharedEntry>& entries, const PlanRequest& request, MessagePlan& plan);

}  // namespace foretime::plans
