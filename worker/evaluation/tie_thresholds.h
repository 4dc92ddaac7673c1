#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "worker/evaluation/evaluator.h"

namespace foretime::worker {

/// Thresholds between levels of scores (models/score_levels.h) of the graphs that a model was trained on, by
/// data::graph_fingerprint. A model that meets one of these graphs again, with other candidates, says which of their
/// scores differ by noise only; of other graphs nothing is known.
using ScoreLevels = std::map<uint64_t, std::vector<double>>;

/// What `scorer` says, with levels where the group's graph has them.
Scorer with_levels(Scorer scorer, ScoreLevels levels);

/// Each candidate's score by the scorer of its fold (LoadedGroup::folds), as the mean of all scorers would say it: a
/// ranking loss leaves each member an offset and a scale of its own, so scores get the mean's mean and deviation over
/// these candidates. One scorer: what it says.
std::vector<double> out_of_fold_scores(const std::vector<Scorer>& scorers, const LoadedGroup& loaded,
                                       const std::vector<int64_t>& candidates);

/// Levels from up to `candidates` training candidates of each training group, evenly spread, on the rank that answers
/// for it; groups in parts have none. One scorer for all of them, or with trainer.member_folds one for each fold, of
/// the member that has not learned from it. The same on all ranks, which all call it.
ScoreLevels fit_levels(const std::vector<Scorer>& scorers, int64_t candidates, const sharding::DatasetIndex& dataset,
                       const sharding::ShardPlan& plan, const GroupStore& store, comm::Communicator& comm);

}  // namespace foretime::worker
