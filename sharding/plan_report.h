#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
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

// How long a step takes on more ranks than one has. The alpha-beta model of collectives is that of Thakur,
// Rabenseifner and Gropp (2005).

/// One direction of a link between two ranks, or two hosts.
struct Link {
  double latency;    // seconds of a message of no bytes
  double bandwidth;  // bytes a second
};

/// Defaults: hosts of eight GPUs with NVLink 4 (450 GB/s a direction, of which a collective sees about 360), and
/// 100 Gbit/s InfiniBand between them (12.5 GB/s, of which 11 are usable). Latencies are those of NCCL's hops.
struct Cluster {
  int ranks_per_host = 8;
  Link inside = {3e-6, 360e9};
  Link between = {5e-6, 11e9};
  double backward_share = 2.0 / 3;  // of a step's compute: where a reduction can hide
  double overlap = 1;               // part of the backward pass that a reduction can use
  double message_seconds = 0;       // that a message keeps a rank busy, where pieces are exchanged
};

/// How gradients are summed: by NCCL, or by exchanging pieces (comm/algorithms/tree_sum.h), as over MPI.
struct Reduction {
  bool exchange = false;
  bool bfloat16 = false;  // half the bytes; by exchange also over NCCL
  bool by_hosts = false;  // within hosts first, where their ranks are a power of two
};
Reduction reduction_of(const configs::CommSettings& settings);

/// Seconds of a step that the model is fed with, measured.
struct ComputeTime {
  double seconds_per_cost = 0;  // of the rank with the largest cost, per unit of IndexEntry::sample_cost
  double seconds_per_step = 0;  // what a step takes whatever its batch holds: optimiser, bookkeeping
};

/// Ring: 2 (n - 1) latency + 2 (n - 1) / n bytes / bandwidth. 0 for one rank.
double ring_all_reduce_seconds(int ranks, double bytes, const Link& link);
/// Double binary tree, pipelined: 2 log2(n) latency + 2 bytes / bandwidth. 0 for one rank.
double tree_all_reduce_seconds(int ranks, double bytes, const Link& link);
/// The faster of both, inside the hosts and then between them; hosts share the work of sending among their ranks.
double all_reduce_seconds(int ranks, double bytes, const Cluster& cluster);
/// The same by an exchange of pieces, of `bytes` as float32. With h hosts of b ranks, n = h b, each of two exchanges
/// takes latency + (n - 1) message_seconds + b (n - b) / n bytes / bandwidth, as a host's ranks share its link; by
/// hosts two within each host and two between them, (h - 1) / h bytes each (as bfloat16 where b > 2). One host:
/// `inside`.
double exchange_seconds(int ranks, double bytes, const Reduction& reduction, const Cluster& cluster);

struct Prediction {
  int ranks = 1;
  double compute_seconds = 0;  // slowest rank, mean over steps; with seconds_per_step
  double waiting_seconds = 0;  // of it: what ideal balance would save
  double reduce_seconds = 0;   // all gradient buckets
  double exposed_seconds = 0;  // of it: what the backward pass does not hide, at least the last bucket
  double small_seconds = 0;    // two all-reduces of a few bytes (loss, stop)
  double step_seconds = 0;
  double efficiency = 1;  // of one rank's step, over ranks times this one; same global batch
};

/// `report` is the plan for that many ranks.
Prediction predict_step(const PlanReport& report, const ComputeTime& compute, double gradient_bytes,
                        int64_t bucket_bytes, const Cluster& cluster, const Reduction& reduction = {});

/// Measured from a run directory: config.yaml (which data it had), environment.json (ranks) and metrics.jsonl.
/// Intervals between its reports, but for the first and those with an evaluation or a checkpoint in them, less exposed
/// communication, against the planned cost of the steps in them: least squares with both coefficients at least 0; where
/// the costs are too alike to tell (spread under 20 %), all time is put on the cost. Throws RunError where the folder
/// holds no such run or too few reports (two intervals at the least).
ComputeTime measure_compute(const std::filesystem::path& run_directory);

/// The fit of measure_compute: seconds = a cost + b steps.
ComputeTime fit_compute(const std::vector<double>& costs, const std::vector<double>& steps,
                        const std::vector<double>& seconds);

// What `foretime plan` prints.

/// The plan for one number of ranks.
struct PlanView {
  int64_t groups_per_batch = 0;
  int64_t candidates_per_group = 0;
  ShardPlan plan;
  PlanReport report;
  std::optional<Prediction> prediction;
};

/// Training groups, parts, samples; one row for each number of ranks; what the columns mean; remarks.
std::string plan_text(const DatasetIndex& dataset, const std::vector<PlanView>& views);
/// The `count` training groups with the costliest samples.
std::string heaviest_text(const DatasetIndex& dataset, size_t count);
/// Which ranks train on and evaluate each part, one row a part.
std::string assignments_text(const DatasetIndex& dataset, const PlanView& view);
std::string prediction_text(const std::vector<PlanView>& views);
/// All of it; `assignments` where asked for.
std::string plan_json(const DatasetIndex& dataset, const std::vector<PlanView>& views, size_t heaviest,
                      bool assignments);

}  // namespace foretime::sharding
