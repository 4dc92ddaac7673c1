#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "configs/settings.h"
#include "data/graphs/group.h"

/// The one thing that models see. A plan says which *states* (node embeddings) exist after each layer, whose states
/// feed which, and how often each final state counts in each candidate's readout. Who builds the plan decides the
/// speed: the plain plan has a state for each node and candidate; block-diagonal plans hold many small graphs; shared
/// plans hold each distinct (node, state) pair once. Models are the same for all.
namespace foretime::plans {

/// Names the nodes whose messages a relation carries to a node.
FORETIME_CHOICE(Direction, in, out, both);  // producers, consumers, both (an edge in each direction)

/// Weight of an entry (target v, source u); degrees are those of the whole graph, counted in the relation.
///   sum        1
///   mean       1 / degree(v)
///   symmetric  1 / sqrt(degree(v) degree(u))
///   sender     1 / degree(u)
///   laplacian  of the scaled Laplacian 2 L / λmax - I, L = I - D^-½ A D^-½ (Direction::both, no self loop), for
///              Chebyshev polynomials; λmax is the largest eigenvalue of L over each graph, by power iteration
///   laplacian_of_two  likewise with the bound 2 in place of λmax, which leaves -D^-½ A D^-½
FORETIME_CHOICE(EdgeNorm, sum, mean, symmetric, sender, laplacian, laplacian_of_two);

/// One adjacency that a model wants propagated. Parallel edges count as often as they occur (plans/plan_source.h has
/// the details).
struct RelationSpec {
  Direction direction = Direction::both;
  EdgeNorm norm = EdgeNorm::sum;
  bool self_loop = false;
  bool operator==(const RelationSpec&) const = default;
};

/// Names the place where tile features (one row a candidate) enter: every node's state (early), or the readout (late).
using configs::TileJoin;

/// Names the states of a layout group's plan that are shared (plans/symbolic_plan.h).
///   none       a state for each node and candidate: for models that normalise over a candidate's nodes between layers
///   invariant  nodes that no configurable node reaches have one state for all candidates
///   states     states computed from the same inputs in the same way are one, whatever node and candidate
FORETIME_CHOICE(Sharing, none, invariant, states);

/// Describes the contents that a model needs in a plan.
struct PlanRequest {
  int64_t layers = 0;
  std::vector<RelationSpec> relations;  // equal for each layer
  TileJoin tile_join = TileJoin::early;
  Sharing sharing = Sharing::none;
  bool tied = false;         // the readout counts nodes with equivalent decisions as one (plans/symbolic_plan.h)
  bool collections = false;  // the model reads the collection of a node's graph
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

/// The states after some layer. Level 0 comes before the first layer.
struct PlanLevel {
  std::vector<int32_t> node;        // [states] row of node_features and node_types
  std::vector<int32_t> layout_row;  // [states] row of layout_rows; 0 where the node is not configurable; empty: all 0
  std::vector<int32_t> candidate;   // [states] row of candidate_features (tile, early join); else empty

  int64_t states() const { return node.size(); }
};

/// Connects the states of one level to those of the next.
struct PlanLayer {
  std::vector<CsrMatrix> relations;  // [states above, states below], in the order of PlanRequest::relations
  std::vector<int32_t> self;         // [states above] each state's own state one level down

  /// Returns whether the states above are the `below` states below, in the same order.
  bool keeps_states(int64_t below) const;
};

/// Counts each final state in each candidate: the product of `stages`, the last of which has the rows. Earlier stages
/// are sums that many rows share: the first is over final states, each later one over the rows of the one before. There
/// is at least one.
struct PlanPool {
  std::vector<CsrMatrix> stages;
};

/// Row c * pools + p sums over the nodes of candidate c that lie in pool p. There is one pool, unless a NodeSubset
/// (plans/plan_source.h) asks for more.
struct PlanReadout {
  int64_t pools = 1;
  PlanPool nodes;         // all nodes of the candidate's graph
  PlanPool configurable;  // configurable nodes of the graph; rows are empty if it has none
  PlanPool tied;          // configurable nodes, weighted by decision_weights; no stages unless requested
};

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

/// The plan of a batch: entry g holds the given candidates of a group, in the given order. Layout groups become
/// node × candidate states, or fewer where the request's sharing allows it; tile groups node × candidate (early) or
/// node (late); programs one state a node.
class PlanBuilder {
 public:
  explicit PlanBuilder(PlanRequest request);
  ~PlanBuilder();
  /// Adds candidates of a group, whose arrays are shared, so that the group need not live until build(). `source` is
  /// the group's plan source for this builder's request (make_plan_source); if null, the builder makes one. Throws
  /// DataError if a candidate id is out of range, if the batch has groups of another kind or feature count, if a source
  /// has other pools than earlier ones, or if the batch would have more than 2^31 - 1 states or nodes.
  void add(const data::Group& group, std::span<const int64_t> candidates,
           std::shared_ptr<const PlanSource> source = nullptr);
  MessagePlan build() &&;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns an upper bound of the states in the last level for `candidates` candidates of the group (exact for tile
/// groups, and for layout groups without sharing; programs count as the group's largest).
int64_t plan_states(const data::Group& group, int64_t candidates, const PlanRequest& request);

}  // namespace foretime::plans
