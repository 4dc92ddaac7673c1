#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/group.h"
#include "data/message_plan.h"

namespace foretime::data {

/// The weighted adjacency [nodes, nodes] of one relation: an entry (target v, source u) for each node u whose message v
/// receives. `sources` and `targets` are the edges' ends, node ids in [first_node, first_node + nodes).
///
/// Columns ascend within a row. Parallel edges become one entry whose value is the sum of theirs; the degree counts
/// each of them, and the self loop. degree(v) is v's row (messages received), degree(u) is u's column (messages sent),
/// so that Direction::both gives the symmetric D^-1/2 (A + A^T + I) D^-1/2 and a node without edges has an empty row,
/// never NaN.
CsrMatrix relation_matrix(int64_t first_node, int64_t nodes, std::span<const int32_t> sources,
                          std::span<const int32_t> targets, const RelationSpec& relation);

/// The adjacency of all graphs of a group, block-diagonal, under each relation of a request. It depends on neither
/// candidates nor weights: whoever plans a group again and again makes it once and hands it to PlanBuilder::add.
struct GroupTopology {
  std::vector<CsrMatrix> relations;  // [nodes, nodes] each, in the order of PlanRequest::relations
};

std::shared_ptr<const GroupTopology> make_topology(const Group& group, const PlanRequest& request);

}  // namespace foretime::data
