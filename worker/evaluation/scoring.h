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

/// How a trained model scores.
struct ScoringOptions {
  const configs::Settings& settings;            // of its training
  models::TargetTransform targets = {};         // gives run times from scores
  TieThresholds tie_thresholds = {};            // empty where it was not trained to know them
  torch::Device device = torch::kCPU;           // where the model is
  int64_t max_states = 1;                       // of one plan, about; one candidate at the least
  std::function<void(int64_t)> on_scored = {};  // called with numbers of candidates that were scored since
};

ScoringOptions scoring_options(const TrainingState& state, torch::Device device);

/// Scores graphs in segments as segments.stale combines them, all of them fresh: sums of scores (scores, none), or the
/// head's score of combined pools (pools). One segment's states are in memory at a time. Models that were trained with
/// full_forward score whole graphs.
/// Groups come with their segments, as segments_of makes them from the settings of the training.
class SegmentScorer {
 public:
  SegmentScorer(std::shared_ptr<models::CostModel> model, const ScoringOptions& options);

  /// False where the model scores whole graphs; the rest is not to be called then.
  bool cuts() const;
  Scores score(const LoadedGroup& loaded, const std::vector<int64_t>& candidates) const;

  /// The segments of some of `parts` parts, put together: [candidates, columns], on the CPU. Candidates of one
  /// configuration are computed once.
  torch::Tensor score_parts(const LoadedGroup& loaded, const std::vector<int64_t>& candidates, int64_t parts,
                            const std::vector<int64_t>& which) const;
  /// Scores from what score_parts gave for all parts.
  Scores merge(const data::Group& group, const std::vector<int64_t>& candidates,
               const std::vector<torch::Tensor>& of_parts) const;

 private:
  torch::Tensor segment(const data::Group& group, const std::vector<int64_t>& candidates,
                        std::span<const int32_t> nodes) const;
  torch::Tensor combined(const torch::Tensor& a, const torch::Tensor& b) const;
  Scores finish(const data::Group& group, const std::vector<int64_t>& candidates, const torch::Tensor& sum) const;

  std::shared_ptr<models::CostModel> model_;
  configs::Settings settings_;
  models::TargetTransform targets_;
  torch::Device device_;
  int64_t max_states_;
  std::function<void(int64_t)> on_scored_;
};

/// The scorer of a trained model: model_scorer, or a SegmentScorer for graphs that are cut; with the levels of scores
/// where the model knows them.
Scorer scorer_for(std::shared_ptr<models::CostModel> model, const ScoringOptions& options);

/// evaluate() of a trained model, with graphs cut as in its training. All ranks call it.
Evaluation evaluate_model(const std::shared_ptr<models::CostModel>& model, const ScoringOptions& options,
                          const std::vector<std::string>& sets, const ShardedData& data);

/// Scores of the graphs in `sets` that span ranks, on the rank that answers for each (ShardPlan::eval_rank): every rank
/// scores its parts' segments, and one exchange puts them together. All ranks call it.
std::map<int64_t, Scores> score_spanning(const SegmentScorer& scorer, const std::vector<std::string>& sets,
                                         const ShardedData& data);

}  // namespace foretime::worker
