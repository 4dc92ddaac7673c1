#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "configs/settings.h"
#include "data/graphs/group.h"

/// Message plans are the input of all models. A plan says which *states* (node embeddings) exist after each layer,
/// which states of one layer are inputs of a state of the next, and how often each final state counts in each
/// candidate's readout. A plain plan has a state for each node and candidate, a shared plan one for all equal ones.
namespace foretime::plans {

/// Names the nodes that send messages to a node: its producers (in), its consumers (out), or both.
FORETIME_CHOICE(Direction, in, out, both);

/// Names the weight of an entry (target v, source u) of a relation. Degrees count the entries of the whole graph.
///   sum        1
///   mean       1 / degree(v)
///   symmetric  1 / sqrt(degree(v) degree(u))
///   sender     1 / degree(u)
///   laplacian_of_two  -1 / sqrt(degree(v) degree(u)): of the scaled Laplacian 2 L / λmax - I, L = I - D^-½ A D^-½
///                     (Direction::both, no self loop), with the bound 2 in place of λmax, for Chebyshev polynomials
FORETIME_CHOICE(EdgeNorm, sum, mean, symmetric, sender, laplacian_of_two);

/// Describes one adjacency along which messages are sent (relation_matrix in plans/plan_source.h).
struct RelationSpec {
  Direction direction = Direction::both;
  EdgeNorm norm = EdgeNorm::sum;
  bool self_loop = false;
  bool operator==(const RelationSpec&) const = default;
};

/// Names the place where tile features (one row a candidate) enter: every node's state (early), or the readout (late).
using configs::TileJoin;

/// Names the states of a layout group's plan that are shared (plans/symbolic_plan.h).
///   none       none: each node has a state for each candidate, for models that normalise over a candidate's nodes
///   invariant  nodes that no configurable node reaches have one state for all candidates
///   states     all nodes and candidates whose states are computed from equal inputs in the same way have one state
FORETIME_CHOICE(Sharing, none, invariant, states);

/// Describes the contents that a model needs in a plan.
struct PlanRequest {
  int64_t layers = 0;
  std::vector<RelationSpec> relations;  // equal for each layer
  TileJoin tile_join = TileJoin::early;
  Sharing sharing = Sharing::none;
  bool tied = false;         // the readout counts nodes with equivalent decisions as one (plans/symbolic_plan.h)
  bool collections = false;  // the model reads the collection of a node's graph (data::Collection)
  bool operator==(const PlanRequest&) const = default;
};

/// A sparse matrix by rows.
struct CsrMatrix {
  int64_t rows = 0, cols = 0;
  std::vector<int64_t> row_ptr;  // [rows + 1]
  std::vector<int32_t> columns;  // [entries]
  std::vector<double> values;    // [entries] double, so that merged entries lose nothing
};

CsrMatrix transpose(const CsrMatrix& matrix);

/// Holds the states of one level. Level 0 is the input of the first layer, level l the result of layer l.
struct PlanLevel {
  std::vector<int32_t> node;        // [states] row of node_features and node_types
  std::vector<int32_t> layout_row;  // [states] row of layout_rows; 0 where the node is not configurable; empty: all 0
  std::vector<int32_t> candidate;   // [states] row of candidate_features; empty except for tiles with early join

  int64_t states() const { return node.size(); }
};

/// Connects the states of one level to those of the next.
struct PlanLayer {
  std::vector<CsrMatrix> relations;  // [states above, states below], in the order of PlanRequest::relations
  std::vector<int32_t> self;         // [states above] the same node's state one level down

  /// Returns whether the states above are the `below` states below, in the same order.
  bool keeps_states(int64_t below) const;
};

/// Counts each final state in each row of a readout. The counts are the matrix product of `stages`, from the last to
/// the first. The columns of the first stage are the final states, those of a later stage are the rows of the stage
/// before it; the rows of the last stage are the rows of the readout. Earlier stages hold sums that many rows share.
struct PlanPool {
  std::vector<CsrMatrix> stages;  // has at least one entry, unless the pool was not requested
};

/// Holds the counts of final states in each candidate. Row c * pools + p is the sum over the nodes of candidate c in
/// pool p. There is one pool, unless a NodeSubset (plans/plan_source.h) has more.
struct PlanReadout {
  int64_t pools = 1;
  PlanPool nodes;         // all nodes of the candidate's graph
  PlanPool configurable;  // configurable nodes of the graph; rows are empty if it has none
  PlanPool tied;          // configurable nodes, weighted by decision_weights; no stages unless requested
};

/// Holds the plan of a batch.
struct MessagePlan {
  int64_t feature_count = 0;
  std::vector<float> node_features;       // [nodes, feature_count]
  std::vector<uint8_t> node_types;        // [nodes]
  std::vector<uint8_t> node_collections;  // [nodes] data::Collection; empty unless the request asks for it
  std::vector<int8_t> layout_rows;        // [rows, 18]; row 0 is all zeros; empty if no group has layouts
  std::vector<float> candidate_features;  // [candidates, 24] (tile), else empty
  std::vector<std::shared_ptr<const PlanLevel>> levels;  // [layers + 1]; may be one object several times
  std::vector<std::shared_ptr<const PlanLayer>> layers;  // [layers]; may be one object several times
  PlanReadout readout;
  std::vector<int64_t> group_ptr;  // [groups + 1] candidates of batch entry g are group_ptr[g] … group_ptr[g + 1] - 1

  int64_t candidates() const { return group_ptr.empty() ? 0 : group_ptr.back(); }
  int64_t nodes() const { return node_types.size(); }
};

struct PlanSource;

/// Builds the plan of a batch. Each call of add() makes one entry of the batch. A layout group has a state for each
/// node and candidate, or fewer if the request shares states. A tile group has one for each node and candidate with
/// early join, and one for each node with late join. A program has one for each node.
class PlanBuilder {
 public:
  explicit PlanBuilder(PlanRequest request);
  ~PlanBuilder();
  /// Adds candidates of a group in this order. The builder shares the group's arrays, so the group may be destroyed
  /// before build(). `source` is the group's plan source for this builder's request (make_plan_source); if null, the
  /// builder makes one. Throws DataError if the batch would have more than 2^31 - 1 states or nodes; BrokenInvariant if
  /// a candidate id is out of range, or if the group's kind, feature count or pools differ from those of earlier
  /// groups, or `source` was made for another request or group.
  void add(const data::Group& group, std::span<const int64_t> candidates,
           std::shared_ptr<const PlanSource> source = nullptr);
  /// Returns the plan. Throws DataError if a level has more than 2^31 - 9 shared states.
  MessagePlan build() &&;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns an upper bound of the states in the last level for `candidates` candidates of the group. The bound is exact
/// for tile groups, and for layout groups without sharing; each program counts as the group's largest.
int64_t plan_states(const data::Group& group, int64_t candidates, const PlanRequest& request);

}  // namespace foretime::plans
