#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <torch/types.h>

#include "base/no_copy.h"
#include "comm/communicator.h"
#include "metrics/metrics.h"
#include "models/losses/losses.h"
#include "models/model.h"
#include "models/sparse/plan_tensors.h"
#include "plans/plan_source.h"
#include "sharding/shard_plan.h"
#include "worker/store/group_store.h"

namespace foretime::worker {

/// Holds the groups that an evaluation reads, and the ranks that share it.
struct ShardedData {
  const sharding::DatasetIndex& index;
  const sharding::ShardPlan& plan;
  const GroupStore& store;
  comm::Communicator& comm;
};

using metrics::Scores;
/// Returns the scores of these candidates (ids in the group), [candidates].
using Scorer = std::function<Scores(const LoadedGroup& loaded, const std::vector<int64_t>& candidates)>;

/// Switches a model to evaluation mode without gradients, and restores its mode at the end of the scope.
class EvaluationMode : NoCopy {
 public:
  explicit EvaluationMode(models::CostModel& model) : model_(model), was_training_(model.is_training()) {
    model_.eval();
  }
  ~EvaluationMode() { model_.train(was_training_); }

 private:
  models::CostModel& model_;
  bool was_training_;
  torch::NoGradGuard no_grad_;
};

/// Returns a scorer that runs `model` without gradients on pieces of about `max_states` states (at least one
/// candidate). It makes the group's plan source if the group has none, and computes equal configurations once. It also
/// gives predicted run times as with_runtimes() does, and chances of failure for a model with failure_output.
/// `on_scored` is called after each piece with the number of candidates in it.
Scorer model_scorer(std::shared_ptr<models::CostModel> model, const models::TargetTransform& targets,
                    const configs::LossSettings& loss, torch::Device device, int64_t max_states,
                    std::function<void(int64_t)> on_scored = {});

/// Returns `scores` of these candidates, with predicted run times by the inverse of `targets` if the loss is, or
/// includes, a regression loss (mse, huber, l1, loss.huber_weight).
Scores with_runtimes(std::vector<double> scores, const data::Group& group, const std::vector<int64_t>& candidates,
                     const configs::LossSettings& loss, const models::TargetTransform& targets);

/// Returns the name of the set that groups of a role are evaluated in: holdout for train, valid or test.
std::string set_of(sharding::Role role);

/// Returns the scorer of the constant baseline: `runtime` is the score and the predicted run time of every candidate.
Scorer constant_scorer(double runtime);

/// Holds the scores of one group's candidates, and metrics of their order. Undefined metrics are absent.
struct GroupEvaluation {
  std::string set;    // holdout (held-out candidates of training groups), valid or test; rank of Ensemble::rank
  std::string group;  // name of the group
  data::RuntimeUnit unit = data::RuntimeUnit::nanoseconds;
  std::vector<int64_t> candidates = {};  // ids in the group
  std::vector<double> runtimes = {};     // [candidates] measured, in `unit`; empty if the file has no run times
  Scores scores = {};
  std::map<std::string, double> metrics = {};  // values by name, without the set
  std::vector<std::string> ids = {};           // [candidates] names in the file; empty if the file has none
};

/// Holds metrics by "set/metric". Ranking metrics are means over groups, errors are means over candidates that ran.
struct Evaluation {
  std::map<std::string, double> metrics;  // equal on every rank
  std::vector<GroupEvaluation> groups;    // all groups on rank 0, by set and name; empty on other ranks
};

/// Returns the run times that an oracle predicts: the mean run time of each candidate's configuration over all of its
/// successful measurements in the group, also those of candidates that are not in `candidates`. No model can be
/// expected to be more accurate, since measurements are noisy. A configuration that never ran has an infinite time.
/// Returns an empty list if no two candidates of the group have equal configurations.
std::vector<double> oracle_runtimes(const data::Group& group, const std::vector<int64_t>& candidates);

/// Returns the metrics of `group.scores`; the group must have run times. If candidates have levels, kendall_tau counts
/// candidates of one level as tied, and kendall_tau_of_scores ignores levels.
std::map<std::string, double> measure(const GroupEvaluation& group, data::CandidateKind kind);

/// Returns metrics by "set/metric" over all groups of all ranks; `own` holds the groups that this rank evaluated. All
/// ranks call it.
std::map<std::string, double> mean_metrics(const std::vector<GroupEvaluation>& own, comm::Communicator& comm);

/// Scores these candidates of one group and returns the scores, with metrics if the group has run times, among them
/// noise_ceiling_tau: Kendall's tau of oracle_runtimes, absent if that is empty.
GroupEvaluation evaluate_group(const Scorer& scorer, const std::string& set, const LoadedGroup& loaded,
                               std::vector<int64_t> candidates);

/// Evaluates the groups of `sets` (some of holdout, valid and test) that have candidates to evaluate, each on the rank
/// that the plan names. All ranks call it. `known` holds scores by dataset entry that replace those of `scorer`.
Evaluation evaluate(const Scorer& scorer, const std::vector<std::string>& sets, const ShardedData& data,
                    const std::map<int64_t, Scores>& known = {});

/// Returns all rankings as CSV with one row for each candidate, by ascending score in each group: set, group, rank
/// (from 0), candidate, id (name in the file), score, predicted_runtime, runtime, level, failure (predicted chance).
/// Unknown values are empty. Numbers have the shortest form that reads back to the same value.
std::string rankings_csv(const Evaluation& evaluation);

/// Plans the candidates of a group in pieces of about `max_states` states (at least one candidate), for scoring without
/// gradients, and calls `visit` with the plan of each piece on `device`, in the order of the candidates.
void for_each_plan(const data::Group& group, const std::shared_ptr<const plans::PlanSource>& source,
                   const std::vector<int64_t>& candidates, int64_t max_states, torch::Device device,
                   const std::function<void(const models::PlanTensors& plan)>& visit);

}  // namespace foretime::worker
