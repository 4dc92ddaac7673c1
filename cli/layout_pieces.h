#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tuner/graph_scorer.h"

namespace foretime::cli {

/// Where calls of at most 256 distinct layouts of a node end that score `candidates` one after another: ascending, the
/// last one is `candidates`. layouts [candidates, configurable, 18].
std::vector<int64_t> layout_pieces(std::span<const int8_t> layouts, int64_t configurable, int64_t candidates);

/// GraphScorer::score_layouts, in as many calls as that takes. Models that compare candidates need one call, which
/// throws DataError where a node has more layouts.
std::vector<float> score_layouts(const tuner::GraphScorer& scorer, bool compares, std::span<const int8_t> layouts,
                                 int64_t candidates);

}  // namespace foretime::cli
