#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/graphs/group.h"
#include "plans/message_plan.h"

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

}  // namespace foretime::plans
