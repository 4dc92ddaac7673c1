#pragma once

#include <cstdint>
#include <vector>

#include "configs/settings.h"
#include "sharding/shard_plan.h"

/// Predicted load balance, simulated without starting ranks.
namespace foretime::sharding {

/// Planned cost of one batch, in the unit of IndexEntry::sample_cost.
struct StepCost {
  double total = 0;  // of all ranks
  double alone = 0;  // of one rank that has the whole batch
  double heaviest_rank = 0;
  double heaviest_sample = 0;
};

/// Planned cost of global batch `batch` (0, 1, …, over all epochs).
StepCost batch_cost(const DatasetIndex& dataset, const ShardPlan& plan, int ranks, uint64_t seed, int64_t batch);

/// Costs of the batches of epoch 0, in their order, at most `limit` of them.
std::vector<StepCost> step_costs(const DatasetIndex& dataset, const ShardPlan& plan, int ranks, uint64_t seed,
                                 int64_t limit = 10000);

/// Imbalances are relative: 0.02 stands for 2 %.
struct PlanReport {
  int ranks = 1;
  int idle_ranks = 0;  // without a slot
  int64_t slots = 0;
  int64_t samples = 0;  // of an epoch
  int64_t batches = 0;
  int64_t buckets = 0;
  int64_t pieces = 0;  // parts of training groups
  int64_t cut_groups = 0;
  /// Largest rank's cost of an epoch over the mean, less 1.
  double imbalance = 0;
  /// Imbalance of what a run waits for: the sum over steps of the largest rank's cost, over the sum of the means,
  /// less 1.
  double step_imbalance = 0;
  double worst_step = 0;  // largest imbalance of one step
  /// What no plan with these batches can go below: in each step the larger of the mean and the heaviest sample.
  double step_bound = 0;
  double heaviest_sample_share = 0;      // heaviest sample over a rank's mean cost of a step: above 1 it sets the pace
  double padding = 0;                    // share of the batch slots without a sample
  double bytes_max = 0, bytes_mean = 0;  // of a rank, estimated (see ResidentBytes)
  double copies = 0;                     // ranks that hold a training piece, on average
  /// What all ranks do in an epoch over what one rank alone would do, less 1: states that ranks compute each for itself
  /// since samples of one graph were dealt to several of them.
  double repeated = 0;
  double speed_up = 1;  // steps of one rank over those of the slowest of all ranks, without communication
  std::vector<StepCost> steps;
};

PlanReport report_plan(const DatasetIndex& dataset, const ShardPlan& plan, const configs::Settings& settings,
                       int ranks);

}  // namespace foretime::sharding
