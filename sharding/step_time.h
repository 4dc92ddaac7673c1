#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "configs/settings.h"
#include "sharding/plan_report.h"

/// How long a step takes on more ranks than one has. The alpha-beta model of collectives is that of Thakur,
/// Rabenseifner and Gropp (2005).
namespace foretime::sharding {

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

}  // namespace foretime::sharding
