#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <torch/types.h>

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
using Scorer = std::function<Scores(const LoadedGroup& loaded, const std::vector<int64_t>& candidates)>;

/// Switches a model to evaluation mode without gradients, and restores its mode at the end of the scope.
class EvaluationMode {
 public:
  explicit EvaluationMode(models::CostModel& model) : model_(model), was_training_(model.is_training()) {
    model_.eval();
  }
  ~EvaluationMode() { model_.train(was_training_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  models::CostModel& model_;
  bool was_training_;
  torch::NoGradGuard no_grad_;
};

/// Returns a scorer that runs `model` without gradients on pieces of at most `max_states` states (at least one
/// candidate). It makes the group's plan source if the group has none. For a model with a regression loss (mse, huber,
/// l1, or loss.huber_weight) it also predicts run times, by the inverse of `targets`. `on_scored` is called after each
/// piece with its number of candidates.
Scorer model_scorer(std::shared_ptr<models::CostModel> model, const models::TargetTransform& targets,
                    const configs::LossSettings& loss, torch::Device device, int64_t max_states,
                    std::function<void(int64_t)> on_scored = {});

/// Returns `scores` with run times if the loss is, or includes, a regression loss.
Scores with_runtimes(std::vector<double> scores, const data::Group& group, const std::vector<int64_t>& candidates,
                     const configs::LossSettings& loss, const models::TargetTransform& targets);

/// Returns the name of the set that entries of a role are evaluated in: holdout, valid or test.
std::string set_of(sharding::Role role);

/// Returns the scorer of the constant baseline, which predicts `runtime` for every candidate.
Scorer constant_scorer(double runtime);

/// Holds the ranking of one group. Undefined metrics are absent.
struct GroupEvaluation {
  std::string set;  // holdout (held-out candidates of training groups), valid or test
  std::string group;
  data::RuntimeUnit unit = data::RuntimeUnit::nanoseconds;
  std::vector<int64_t> candidates = {};
  std::vector<double> runtimes = {};  // [candidates]; empty if the file has no run times
  Scores scores = {};
  std::map<std::string, double> metrics = {};
  std::vector<std::string> ids = {};  // [candidates] names in the file; empty if the file has none
};

/// Holds metrics by "set/metric". Ranking metrics are means over groups, errors are means over candidates.
struct Evaluation {
  std::map<std::string, double> metrics;  // equal on every rank
  std::vector<GroupEvaluation> groups;    // all groups on rank 0, by set and name; empty on other ranks
};

/// Returns the run times that an oracle predicts: the mean run time of each candidate's configuration over all of its
/// successful measurements in the group, also of candidates that are not evaluated. Measurement noise limits every
/// model to this accuracy. A configuration that never ran has an infinite time. Returns an empty list if no
/// configuration was measured twice.
std::vector<double> oracle_runtimes(const data::Group& group, const std::vector<int64_t>& candidates);

/// Returns the metrics of `group.scores`; the group must have run times. If candidates have levels, kendall_tau counts
/// candidates of one level as tied, and kendall_tau_of_scores ignores levels.
std::map<std::string, double> measure(const GroupEvaluation& group, data::CandidateKind kind);

/// Returns metrics by "set/metric" over all groups of all ranks; `own` holds the groups that this rank evaluated. All
/// ranks call it.
std::map<std::string, double> mean_metrics(const std::vector<GroupEvaluation>& own, comm::Communicator& comm);

/// Scores one group and returns its ranking with metrics.
GroupEvaluation evaluate_group(const Scorer& scorer, const std::string& set, const LoadedGroup& loaded,
                               std::vector<int64_t> candidates);

/// Evaluates each group on the rank that the plan names, and merges sums and counts, never means. All ranks call it.
/// `sets` names some of holdout, valid and test; `known` holds scores of entries that need not be computed.
Evaluation evaluate(const Scorer& scorer, const std::vector<std::string>& sets, const ShardedData& data,
                    const std::map<int64_t, Scores>& known = {});

/// Returns all rankings as CSV: set, group, rank, candidate, its name in the file, score, predicted and measured run
/// time, level, chance of failure. Numbers have the shortest form that reads back to the same value.
std::string rankings_csv(const Evaluation& evaluation);

/// Plans the candidates of a group in pieces of about `max_states` states (one candidate at the least), for scoring
/// without gradients, and calls `visit` with each, in the order of the candidates.
void for_each_plan(const data::Group& group, const std::shared_ptr<const plans::PlanSource>& source,
                   const std::vector<int64_t>& candidates, int64_t max_states, torch::Device device,
                   const std::function<void(const models::PlanTensors& plan)>& visit);

}  // namespace foretime::worker
