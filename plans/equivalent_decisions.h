#pragma once

#include <cstdint>
#include <vector>

#include "data/graphs/group.h"

namespace foretime::plans {

/// Weights with which every decision of the compiler counts once, however many nodes carry it: [configurable] 1 /
/// number of nodes that carry the node's decision. Two nodes carry one decision where all candidates of a group that
/// agree at one of them agree at the other, too; all nodes with one layout only are one decision. A function of the
/// group's codes; of more than 2^24 codes, candidates at equal distances are looked at.
std::vector<double> decision_weights(const data::LayoutCandidates& layout, int64_t candidates);

}  // namespace foretime::plans
