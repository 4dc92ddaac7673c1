#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "worker/evaluation/evaluator.h"
#include "worker/state/training_state.h"

namespace foretime::worker {

/// What `scorer` says, and for graphs with thresholds the level of each score: scores of one level are tied.
Scorer with_ties(Scorer scorer, TieThresholds thresholds);

/// Each candidate's score by the scorer of its fold (LoadedGroup::folds), as the mean of all scorers would say it: a
/// ranking loss leaves each member an offset and a scale of its own, so scores get the mean's mean and deviation over
/// these candidates. One scorer: what it says.
std::vector<double> out_of_fold_scores(const std::vector<Scorer>& scorers, const LoadedGroup& loaded,
                                       const std::vector<int64_t>& candidates);

/// Thresholds from up to `candidates` training candidates of each training group, evenly spread, on the rank that
/// answers for it; groups in parts have none. One scorer for all of them, or in cross-fitting (trainer.cross_fitting)
/// one for each fold, of the member that has not learned from it. All ranks call it, and get the same thresholds.
TieThresholds fit_tie_thresholds(const std::vector<Scorer>& scorers, int64_t candidates, const ShardedData& data);

}  // namespace foretime::worker
