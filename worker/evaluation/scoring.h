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

/// Returns a scorer that adds the levels of scores for graphs in `thresholds`. Scores of one level are tied.
Scorer with_ties(Scorer scorer, TieThresholds thresholds);

/// Returns the score of each candidate by scorer f, where f is the candidate's fold (LoadedGroup::folds). Ranking
/// losses leave the scores of each scorer an arbitrary offset and scale, so each scorer's scores are scaled to the mean
/// and deviation of the mean over all scorers on `candidates`; equal scores of a scorer all become that mean. The
/// scores of a single scorer are returned unchanged.
std::vector<double> out_of_fold_scores(const std::vector<Scorer>& scorers, const LoadedGroup& loaded,
                                       const std::vector<int64_t>& candidates);

/// Fits thresholds to up to `candidates` evenly spread training candidates of each training group, without those that
/// failed, on the group's evaluating rank. Groups in several parts get none. `scorers` holds one scorer, or in
/// cross-fitting (trainer.cross_fitting) one for each fold: the member that did not learn from the fold. All ranks call
/// it, and get equal thresholds.
TieThresholds fit_tie_thresholds(const std::vector<Scorer>& scorers, int64_t candidates, const ShardedData& data);

/// Describes how a trained model scores.
struct ScoringOptions {
  const configs::Settings& settings;     // settings of the model's training
  models::TargetTransform targets = {};  // the inverse turns scores into run times
  TieThresholds tie_thresholds = {};     // empty if the training fitted none
  torch::Device device = torch::kCPU;    // device of the model
  int64_t max_states = 1;                // approximate limit of states in a plan; a plan has at least one candidate
  std::function<void(int64_t)> on_scored = {};  // called with the number of candidates scored since the last call
};

/// Returns the options of a trained model on `device`, with max_states from trainer.eval_states and without on_scored.
ScoringOptions scoring_options(const TrainingState& state, torch::Device device);

/// Scores graphs in segments. All segments are computed, and combined as in training: by the sum of scores for
/// segments.stale scores and none, and by the head's score of combined pools for pools. Only one segment's states are
/// in memory at a time. LoadedGroup::segments must be those that segments_of makes from the settings of the training.
class SegmentScorer {
 public:
  SegmentScorer(std::shared_ptr<models::CostModel> model, const ScoringOptions& options);

  /// Returns whether the model scores segments. If not (no segments, or segments.stale full_forward), the model scores
  /// whole graphs, and the other functions must not be called.
  bool scores_segments() const;
  /// Returns the scores of candidates of a graph in segments, with run times as with_runtimes() gives them.
  Scores score(const LoadedGroup& loaded, const std::vector<int64_t>& candidates) const;

  /// Returns the combined scores or pools of the segments in the parts `which` of a graph that has `parts` parts:
  /// [candidates, columns], on the CPU. `which` must not be empty. Equal configurations are computed once.
  torch::Tensor score_parts(const LoadedGroup& loaded, const std::vector<int64_t>& candidates, int64_t parts,
                            const std::vector<int64_t>& which) const;
  /// Returns the scores of a whole graph from the results of score_parts, which together must have all parts.
  Scores merge(const data::Group& group, const std::vector<int64_t>& candidates,
               const std::vector<torch::Tensor>& of_parts) const;

 private:
  /// Returns the scores or pools of the segment with the nodes `nodes`: [candidates, columns], on the CPU.
  torch::Tensor segment(const data::Group& group, const std::vector<int64_t>& candidates,
                        std::span<const int32_t> nodes) const;
  /// Returns the sum of the scores, or the combined pools, of two sets of segments.
  torch::Tensor combined(const torch::Tensor& a, const torch::Tensor& b) const;
  /// Returns the scores of a graph from `sum`, the combined scores or pools of all segments.
  Scores finish(const data::Group& group, const std::vector<int64_t>& candidates, const torch::Tensor& sum) const;

  std::shared_ptr<models::CostModel> model_;
  configs::Settings settings_;
  models::TargetTransform targets_;
  torch::Device device_;
  int64_t max_states_;
  std::function<void(int64_t)> on_scored_;
};

/// Returns the scorer of a trained model: a SegmentScorer for graphs in segments if the model scores segments, else
/// model_scorer(). It gives the levels of scores as with_ties() does.
Scorer scorer_for(std::shared_ptr<models::CostModel> model, const ScoringOptions& options);

/// Evaluates a trained model as evaluate() does, with graphs in segments as in training. All ranks call it.
Evaluation evaluate_model(const std::shared_ptr<models::CostModel>& model, const ScoringOptions& options,
                          const std::vector<std::string>& sets, const ShardedData& data);

/// Returns the scores of the graphs of `sets` that have several parts, by dataset entry, each on the graph's evaluating
/// rank (ShardPlan::eval_rank) only. Every rank scores the segments of the parts that it evaluates, and one exchange
/// joins the results. All ranks call it.
std::map<int64_t, Scores> score_spanning(const SegmentScorer& scorer, const std::vector<std::string>& sets,
                                         const ShardedData& data);

}  // namespace foretime::worker
