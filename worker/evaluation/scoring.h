#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <torch/types.h>

#include "worker/evaluation/evaluator.h"
#include "worker/segments/segment_training.h"
#include "worker/state/training_state.h"

namespace foretime::worker {

/// Returns a scorer that adds to the scores of `scorer` their levels, for graphs with thresholds: scores of one level
/// are tied.
Scorer with_ties(Scorer scorer, TieThresholds thresholds);

/// Returns each candidate's score by the scorer of its fold (LoadedGroup::folds). Ranking losses leave the scores of
/// each member an arbitrary offset and scale, so they are scaled to the mean and deviation of the mean over all scorers
/// for these candidates. The scores of a single scorer are returned unchanged.
std::vector<double> out_of_fold_scores(const std::vector<Scorer>& scorers, const LoadedGroup& loaded,
                                       const std::vector<int64_t>& candidates);

/// Fits thresholds to up to `candidates` evenly spread training candidates of each training group, on the group's
/// evaluating rank; groups in parts get none. `scorers` holds one scorer, or in cross-fitting (trainer.cross_fitting)
/// one for each fold: the member that did not learn from it. All ranks call it, and get equal thresholds.
TieThresholds fit_tie_thresholds(const std::vector<Scorer>& scorers, int64_t candidates, const ShardedData& data);

/// Describes how a trained model scores.
struct ScoringOptions {
  const configs::Settings& settings;     // settings of the model's training
  models::TargetTransform targets = {};  // transform that turns scores into run times
  TieThresholds tie_thresholds = {};     // empty if the training fitted none
  torch::Device device = torch::kCPU;    // device of the model
  int64_t max_states = 1;                // approximate limit of states in one plan, which holds at least one candidate
  std::function<void(int64_t)> on_scored = {};  // called with the number of candidates scored since the last call
};

/// Returns the options of a trained model.
ScoringOptions scoring_options(const TrainingState& state, torch::Device device);

/// Scores graphs in segments. Segments are combined as segments.stale says, all of them fresh: by sums of scores
/// (scores, none), or by the head's score of combined pools (pools). Only one segment's states are in memory at a time.
/// Models that were trained with full_forward score whole graphs. Groups must have the segments that segments_of makes
/// from the settings of the training.
class SegmentScorer {
 public:
  SegmentScorer(std::shared_ptr<models::CostModel> model, const ScoringOptions& options);

  /// Returns whether the model scores segments. If not, it scores whole graphs, and the other functions must not be
  /// called.
  bool scores_segments() const;
  Scores score(const LoadedGroup& loaded, const std::vector<int64_t>& candidates) const;

  /// Returns the combined values of the segments in the parts `which`, of a graph cut into `parts` parts:
  /// [candidates, columns], on the CPU. Candidates of one configuration are computed once.
  torch::Tensor score_parts(const LoadedGroup& loaded, const std::vector<int64_t>& candidates, int64_t parts,
                            const std::vector<int64_t>& which) const;
  /// Returns scores from the results of score_parts for all parts.
  Scores merge(const data::Group& group, const std::vector<int64_t>& candidates,
               const std::vector<torch::Tensor>& of_parts) const;

 private:
  torch::Tensor segment(const data::Group& group, const std::vector<int64_t>& candidates,
                        std::span<const int32_t> nodes) const;
  /// Returns the sum of two segments' scores, or their combined pools.
  torch::Tensor combined(const torch::Tensor& a, const torch::Tensor& b) const;
  /// Returns the scores of combined values of all segments.
  Scores finish(const data::Group& group, const std::vector<int64_t>& candidates, const torch::Tensor& sum) const;

  std::shared_ptr<models::CostModel> model_;
  configs::Settings settings_;
  models::TargetTransform targets_;
  torch::Device device_;
  int64_t max_states_;
  std::function<void(int64_t)> on_scored_;
};

/// Returns the scorer of a trained model: model_scorer, or a SegmentScorer for graphs that are cut. It gives the levels
/// of scores if the model has thresholds.
Scorer scorer_for(std::shared_ptr<models::CostModel> model, const ScoringOptions& options);

/// Evaluates a trained model as evaluate() does, with graphs cut as in its training. All ranks call it.
Evaluation evaluate_model(const std::shared_ptr<models::CostModel>& model, const ScoringOptions& options,
                          const std::vector<std::string>& sets, const ShardedData& data);

/// Returns the scores of the graphs in `sets` that span ranks, on the evaluating rank of each (ShardPlan::eval_rank).
/// Every rank scores the segments of its parts, and one exchange joins them. All ranks call it.
std::map<int64_t, Scores> score_spanning(const SegmentScorer& scorer, const std::vector<std::string>& sets,
                                         const ShardedData& data);

}  // namespace foretime::worker
