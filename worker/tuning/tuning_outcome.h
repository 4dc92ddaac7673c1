#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "worker/step/tuning_data.h"

namespace foretime::worker {

/// By how much the order of held-out candidates changed: Kendall's τ after minus before, a mean over groups, and the
/// standard error of that by a jackknife over candidates. Few candidates tell little: a group of two nothing but by
/// agreeing with others.
struct OrderChange {
  double mean = 0, error = 0;
  int64_t groups = 0;  // with two candidates at the least; 0: nothing was measured
};
OrderChange order_change(const worker::Evaluation& before, const worker::Evaluation& after);

/// How a model ranked candidates that it did not learn from, by "set/metric", before and after it was tuned.
struct TuningOutcome {
  using Metrics = std::map<std::string, double>;

  Metrics before, after;                // of the new data
  Metrics replay_before, replay_after;  // of the old data, those that training held out
  OrderChange change;                   // of the new data
  bool kept_parent = false;             // the new bundle has the weights of its parent
  double seconds = 0;

  /// Whether the new candidates that were held out can be ranked at all (two of a group at the least).
  bool measurable() const;
  /// For the agent of a job: metrics of the bundle that was written (holdout/…), of its parent (parent/…), of old data
  /// (replay/…), and kept_parent, 0 or 1.
  Metrics of_job() const;
  void add_to(nlohmann::json& note) const;
  /// One row a metric, before and after; empty where nothing was measured.
  std::string table() const;
};

/// Finite metrics only, since JSON cannot say others.
TuningOutcome::Metrics finite_metrics(const worker::Evaluation& evaluation);

}  // namespace foretime::worker
