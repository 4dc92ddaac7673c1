#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "configs/settings.h"
#include "sharding/plan_report.h"

/// Prediction of the time of a step on several ranks. Collectives follow the alpha-beta model of Thakur, Rabenseifner
/// and Gropp (2005).
namespace foretime::sharding {

/// Describes one direction of a link between two ranks, or two hosts.
struct Link {
  double latency;    // seconds for an empty message
  double bandwidth;  // bytes per second
};

/// Describes a cluster. The defaults are hosts of eight GPUs with NVLink 4 (450 GB/s a direction, of which a collective
/// sees about 360), and 100 Gbit/s InfiniBand between them (12.5 GB/s, of which 11 are usable). Latencies are those of
/// NCCL's hops.
struct Cluster {
  int ranks_per_host = 8;
  Link inside = {3e-6, 360e9};
  Link between = {5e-6, 11e9};
  double backward_share = 2.0 / 3;  // fraction of a step's compute time during which reductions can run
  double overlap = 1;               // fraction of the backward pass that a reduction can use
  double message_seconds = 0;       // time that a message keeps a rank busy in an exchange of pieces
};

/// Describes the summation of gradients: by NCCL, or by exchanging pieces (comm/algorithms/tree_sum.h), as over MPI.
struct Reduction {
  bool exchange = false;
  bool bfloat16 = false;  // sends half as many bytes; uses the exchange also over NCCL
  bool by_hosts = false;  // reduces within hosts first, if their number of ranks is a power of two
};
/// Returns the summation that the settings ask for.
Reduction reduction_of(const configs::CommSettings& settings);

/// Holds measured seconds of a step.
struct ComputeTime {
  double seconds_per_cost = 0;  // time of the rank with the largest cost, per unit of IndexEntry::sample_cost
  double seconds_per_step = 0;  // time that does not depend on the batch: optimiser, bookkeeping
};

/// Returns the time of a ring: 2 (n - 1) latency + 2 (n - 1) / n bytes / bandwidth. 0 for one rank.
double ring_all_reduce_seconds(int ranks, double bytes, const Link& link);
/// Returns the time of a pipelined double binary tree: 2 log2(n) latency + 2 bytes / bandwidth. 0 for one rank.
double tree_all_reduce_seconds(int ranks, double bytes, const Link& link);
/// Returns the time of the faster of both, inside the hosts and then between them; the ranks of a host share its
/// sending.
double all_reduce_seconds(int ranks, double bytes, const Cluster& cluster);
/// Returns the time of an exchange of pieces of `bytes` bytes as float32. With h hosts of b ranks, n = h b, each of two
/// exchanges takes latency + (n - 1) message_seconds + b (n - b) / n bytes / bandwidth, as a host's ranks share its
/// link. With `by_hosts` there are two exchanges within each host and two between hosts, (h - 1) / h bytes each (as
/// bfloat16 if b > 2). One host uses the link `inside`.
double exchange_seconds(int ranks, double bytes, const Reduction& reduction, const Cluster& cluster);

struct Prediction {
  int ranks = 1;
  double compute_seconds = 0;  // mean over steps of the slowest rank, with seconds_per_step
  double waiting_seconds = 0;  // part of compute_seconds that ideal balance would save
  double reduce_seconds = 0;   // reduction of all gradient buckets
  double exposed_seconds = 0;  // part of reduce_seconds that the backward pass does not hide, at least the last bucket
  double small_seconds = 0;    // two all-reduces of a few bytes (loss, stop requests)
  double step_seconds = 0;
  double efficiency = 1;  // step of one rank / (ranks * step_seconds), for one global batch
};

/// Predicts the time of a step. `report` is the plan for the number of ranks to predict.
Prediction predict_step(const PlanReport& report, const ComputeTime& compute, double gradient_bytes,
                        int64_t bucket_bytes, const Cluster& cluster, const Reduction& reduction = {});

/// Measures the times of a run from its directory: config.yaml (data), environment.json (ranks) and metrics.jsonl.
/// Intervals between reports, less exposed communication, are fitted to the planned cost of their steps by least
/// squares with coefficients of at least 0; the first interval and those with an evaluation or a checkpoint are left
/// out. If costs vary too little (spread under 20 %), all time is attributed to the cost. Throws RunError if the folder
/// holds no such run or fewer than two intervals.
ComputeTime measure_compute(const std::filesystem::path& run_directory);

/// Fits seconds = a cost + b steps for measure_compute.
ComputeTime fit_compute(const std::vector<double>& costs, const std::vector<double>& steps,
                        const std::vector<double>& seconds);

}  // namespace foretime::sharding
