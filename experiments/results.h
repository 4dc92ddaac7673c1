#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/document.h"
#include "experiments/metrics.h"
#include "experiments/trials.h"

namespace foretime::experiments {

/// Holds the results of a complete trial with all of its folds.
struct TrialResult {
  size_t entry = 0;
  double fraction = 1;
  uint64_t seed = 1;
  double seconds = 0;  // sum over all folds; 0: unknown
  double memory = 0;   // MiB, summed over the peaks of all ranks, for the largest fold; 0: unknown
  Predictions groups;
  Metrics metrics;  // metrics over the groups, and of the trial itself; times in display units
  std::vector<std::filesystem::path> folders = {};  // run folders with their rankings.csv
};

/// Summarizes the values of several seeds.
struct Spread {
  size_t count = 0;
  double mean = 0, low = 0, high = 0;
  double deviation = 0;  // sample standard deviation; 0 for fewer than two
};

/// Holds all results of an experiment, for its tables.
struct Results {
  Experiment experiment;
  TimeUnit unit;
  data::CandidateKind kind = data::CandidateKind::program;
  std::vector<TrialResult> trials;
  size_t expected = 0;  // number of all trials, complete or not; each fold counts
  size_t complete = 0;
  /// Hold a second measurement as a prediction of the first, without the drift between both and with it.
  std::optional<Remeasurement> ceiling, drifted;
  Metrics ceiling_metrics, drifted_metrics;  // times in display units
  std::string note;                          // sentence for the summary; may be empty

  /// Reads the results of a complete trial in `folder`. `seconds` are used if the trial wrote no resources.json. The
  /// folds of an entry, share and seed become a result when the last one is added. Throws data::DataError.
  void add(const Trial& trial, const std::filesystem::path& folder, double seconds);
  /// Evaluates the second measurement of the evaluated groups; called after the last trial.
  void compare_remeasured();

  /// Returns the trials of an entry and share, one for each seed.
  std::vector<const TrialResult*> of(size_t entry, double fraction) const;
  /// Returns the spread of a metric over the seeds that have it.
  Spread spread(size_t entry, double fraction, const std::string& metric) const;
  /// Returns the metrics of the seeds' joined predictions; empty for fewer than two seeds or if `joined` is empty.
  Metrics joined_metrics(size_t entry, double fraction) const;
  /// Returns the names of the groups on which any trial was evaluated.
  std::vector<std::string> groups() const;
  /// Returns the largest share: "all training data".
  double whole() const { return experiment.fractions.back(); }
  Metrics shown(const Metrics& metrics) const;  // converts times to display units

 private:
  /// Adds the result of a trial whose folds are complete.
  void finish(TrialResult result);
  std::vector<TrialResult> unfinished_;  // results that lack folds
};

Results begin_results(const Experiment& experiment, size_t expected);
Spread spread_of(const std::vector<double>& values);

/// Returns 0.293, 12.3 % or 0.12 %, with about three significant digits; - for NaN.
std::string metric_text(const std::string& metric, double value);
/// Returns the title of a metric with its unit: "ℓ1 (ms)".
std::string metric_title(const std::string& metric, const TimeUnit& unit);

}  // namespace foretime::experiments
