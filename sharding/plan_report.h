#pragma once

#include <cstdint>
#include <vector>

#include "configs/settings.h"
#include "sharding/shard_plan.h"

/// Predicts the load balance of a plan without starting ranks.
namespace foretime::sharding {

/// Holds the planned cost of one batch, in the unit of IndexEntry::sample_cost.
struct StepCost {
  double total = 0;            // cost of all ranks
  double alone = 0;            // cost if one rank had the whole batch
  double heaviest_rank = 0;    // cost of the rank with the largest cost
  double heaviest_sample = 0;  // largest cost of one sample
};

/// Returns the planned cost of batch `batch` of all ranks (0, 1, …, counted over all epochs).
StepCost batch_cost(const DatasetIndex& dataset, const ShardPlan& plan, int ranks, uint64_t seed, int64_t batch);

/// Returns the planned costs of the first `limit` batches of epoch 0, or of all if there are fewer.
std::vector<StepCost> step_costs(const DatasetIndex& dataset, const ShardPlan& plan, int ranks, uint64_t seed,
                                 int64_t limit = 10000);

/// Holds the predicted load balance. Imbalances are relative: 0.02 means 2 %.
struct PlanReport {
  int ranks = 1;
  int idle_ranks = 0;  // ranks without a slot
  int64_t slots = 0;
  int64_t samples = 0;     // samples in an epoch
  int64_t batches = 0;     // batches in an epoch
  int64_t buckets = 0;     // cost buckets
  int64_t pieces = 0;      // parts of training groups
  int64_t cut_groups = 0;  // training groups with several parts
  /// Cost of an epoch on the most loaded rank divided by the mean, minus 1.
  double imbalance = 0;
  /// Imbalance of the steps: sum over steps of the largest cost of a rank / sum of the mean costs of ranks, minus 1.
  double step_imbalance = 0;
  double worst_step = 0;  // largest imbalance of a step
  /// Lower bound of `step_imbalance`: each step costs at least the mean of the ranks, and at least its heaviest sample.
  double step_bound = 0;
  double heaviest_sample_share = 0;      // heaviest sample / mean cost of a rank's step; above 1 it limits the speed
  double padding = 0;                    // fraction of batch slots without a sample
  double bytes_max = 0, bytes_mean = 0;  // largest and mean estimated bytes of a rank (ResidentBytes)
  double copies = 0;                     // average number of ranks that hold a training piece
  /// Work of all ranks in an epoch divided by the work of one rank alone, minus 1: ranks that have samples of one graph
  /// each compute its shared states.
  double repeated = 0;
  double speed_up = 1;          // steps of one rank / steps of the slowest of all ranks, without communication
  std::vector<StepCost> steps;  // holds at most the first 10,000 steps of epoch 0
};

/// Returns the predicted balance of epoch 0 if `plan`, made for `ranks` ranks, is trained with `settings`.
PlanReport report_plan(const DatasetIndex& dataset, const ShardPlan& plan, const configs::Settings& settings,
                       int ranks);

}  // namespace foretime::sharding
