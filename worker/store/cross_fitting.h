#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace foretime::worker {

/// Cross-fitting (trainer.cross_fitting): the ensemble members of a model (model.ensemble_size) divide the
/// configurations of each training group into folds, and each learns from the folds of the others. Out-of-fold scores,
/// a candidate's score by the member that has not seen it, show how well scores order candidates that nobody measured:
/// tie thresholds (worker/evaluation/tie_thresholds.h) are found from them.

/// The fold of each configuration, given by its hash: the member that does not learn from it. Candidates of one
/// configuration are in one fold, whatever rank asks.
std::vector<uint8_t> folds_of(std::span<const uint64_t> configurations, int64_t members, uint64_t seed);

}  // namespace foretime::worker
