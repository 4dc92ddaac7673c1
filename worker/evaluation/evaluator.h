#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <torch/types.h>

#include "comm/communicator.h"
#include "models/losses/losses.h"
#include "models/metrics/metrics.h"
#include "models/model.h"
#include "models/sparse/plan_tensors.h"
#include "plans/plan_source.h"
#include "sharding/shard_plan.h"
#include "worker/store/group_store.h"

namespace foretime::worker {

/// The groups that an evaluation reads, and the ranks that share it.
struct ShardedData {
  const sharding::DatasetIndex& index;
  const sharding::ShardPlan& plan;
  const GroupStore& store;
  comm::Communicator& comm;
};

using models::Scores;
using Scorer = std::function<Scores(const LoadedGroup& loaded, const std::vector<int64_t>& candidates)>;

/// Evaluation mode without gradients, and what was before.
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

/// Scores by a model, in pieces of at most `max_states` states (one candidate at the least), without gradients; the
/// group's plan source is made where it is not there. A model trained by a regression loss (mse, huber, l1), or
/// with loss.huber_weight, also predicts run times, by the inverse of `targets`. `on_scored` hears after each piece how
/// many candidates it had.
Scorer model_scorer(std::shared_ptr<models::CostModel> model, const models::TargetTransform& targets,
                    const configs::LossSettings& loss, torch::Device device, int64_t max_states,
                    std::function<void(int64_t)> on_scored = {});

/// Scores, with run times where the loss is, or is joined by, a regression loss.
Scores with_runtimes(std::vector<double> scores, const data::Group& group, const std::vector<int64_t>& candidates,
                     const configs::LossSettings& loss, const models::TargetTransform& targets);

/// The set that entries of a role are evaluated in: holdout, valid or test.
std::string set_of(sharding::Role role);

/// The baseline that predicts one run time for everything.
Scorer constant_scorer(double runtime);

/// One group's ranking. Metrics that are undefined are absent.
struct GroupEvaluation {
  std::string set;  // holdout (held-out candidates of training groups), valid or test
  std::string group;
  data::RuntimeUnit unit = data::RuntimeUnit::nanoseconds;
  std::vector<int64_t> candidates = {};
  std::vector<double> runtimes = {};  // empty where the file has no labels
  Scores scores = {};
  std::map<std::string, double> metrics = {};
  std::vector<std::string> ids = {};  // of the candidates; empty where the file names none
};

/// Metrics by "set/metric". Ranking metrics are means over groups, errors are means over candidates.
struct Evaluation {
  std::map<std::string, double> metrics;  // the same on every rank
  std::vector<GroupEvaluation> groups;    // on rank 0: all of them, by set and name; elsewhere empty
};

/// What an oracle predicts that knows every configuration's mean run time over all of its measurements in the group
/// that ran, the candidates that are not evaluated among them: measurement noise bounds every model by it. Infinite
/// where none ran. Empty where no configuration was measured twice.
std::vector<double> oracle_runtimes(const data::Group& group, const std::vector<int64_t>& candidates);

/// Metrics of `group.scores` against its run times, which are there. Where candidates have levels, kendall_tau counts
/// those of one level as tied, and kendall_tau_of_scores is that of the scores as they are.
std::map<std::string, double> measure(const GroupEvaluation& group, data::CandidateKind kind);

/// Metrics by "set/metric" of all groups of all ranks; `own` are those that this rank evaluated. All ranks call it.
std::map<std::string, double> mean_metrics(const std::vector<GroupEvaluation>& own, comm::Communicator& comm);

/// Scores and measures one group.
GroupEvaluation evaluate_group(const Scorer& scorer, const std::string& set, const LoadedGroup& loaded,
                               std::vector<int64_t> candidates);

/// Evaluates each group on the rank that the plan names, and merges: sums and counts are reduced, never means. All
/// ranks call it. `sets`: which of holdout, valid and test. `known`: scores of entries that are there already.
Evaluation evaluate(const Scorer& scorer, const std::vector<std::string>& sets, const ShardedData& data,
                    const std::map<int64_t, Scores>& known = {});

/// CSV of all rankings: set, group, rank, candidate, its id in the file, score, predicted run time, measured run time,
/// level, chance of failure.
/// Numbers are in the shortest form that reads back the same.
std::string rankings_csv(const Evaluation& evaluation);

/// Plans the candidates of a group in pieces of about `max_states` states (one candidate at the least), for scoring
/// without gradients, and calls `visit` with each, in the order of the candidates.
void for_each_plan(const data::Group& group, const std::shared_ptr<const plans::PlanSource>& source,
                   const std::vector<int64_t>& candidates, int64_t max_states, torch::Device device,
                   const std::function<void(const models::PlanTensors& plan)>& visit);

}  // namespace foretime::worker
