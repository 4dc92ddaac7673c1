#pragma once

#include <cstdint>
#include <vector>

#include "data/graphs/group.h"

namespace foretime::plans {

/// Configurable nodes are *tied* where all candidates of a group that agree at one of them agree at the other, too: the
/// compiler chose their layouts as one, so they are one decision however many nodes carry it. Nodes with one layout
/// only are tied to each other.
///
/// [configurable] 1 / number of nodes that each node is tied to, itself among them: with these weights every decision
/// counts once. A function of the group's codes; of more than 2^24 codes, candidates at equal distances are looked at.
std::vector<double> tied_weights(const data::LayoutCandidates& layout, int64_t candidates);

}  // namespace foretime::plans
