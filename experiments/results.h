#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/document.h"
#include "experiments/metrics.h"
#include "experiments/trials.h"

namespace foretime::experiments {

/// Holds the results of an entry with one share of training data and one seed, over all folds.
struct TrialResult {
  size_t entry = 0;     // index in Experiment::entries
  double fraction = 1;  // share of the training candidates
  uint64_t seed = 1;
  double seconds = 0;  // duration, summed over all folds; 0: unknown
  double memory = 0;   // MiB, sum of the ranks' peaks, of the fold with the largest sum; 0: unknown
  Predictions groups;  // sorted by GroupPredictions::group
  Metrics metrics;     // means over all groups; also seconds and memory, if known; times in display units
  std::vector<std::filesystem::path> folders = {};  // folder with a rankings.csv of each fold
};

/// Summarizes the values of several seeds.
struct Spread {
  size_t count = 0;                    // number of values
  double mean = 0, low = 0, high = 0;  // low and high: least and greatest value; NaN without values
  double deviation = 0;                // sample standard deviation; 0 for fewer than two values
};

/// Holds all results of an experiment, for its tables.
struct Results {
  Experiment experiment;
  TimeUnit unit;  // display unit
  data::CandidateKind kind = data::CandidateKind::program;
  std::vector<TrialResult> trials;
  size_t expected = 0;                       // number of all trials, complete or not; each fold counts
  size_t complete = 0;                       // number of added trials; each fold counts
  std::optional<Remeasurement> ceiling;      // second measurement without drift (as_prediction); nullopt: none
  std::optional<Remeasurement> drifted;      // second measurement with drift; nullopt: none
  Metrics ceiling_metrics, drifted_metrics;  // metrics of `ceiling` and `drifted`; times in display units
  std::string note;                          // sentence for the summary; may be ""

  /// Adds the results of a complete trial from rankings.csv in `folder`, with the duration `seconds` if there is no
  /// resources.json. The folds of an entry, share and seed become one TrialResult. Throws as read_rankings does.
  void add(const Trial& trial, const std::filesystem::path& folder, double seconds);
  /// Sets `ceiling` and `drifted` for the groups of the first trial. Called after the last add(). Does nothing without
  /// experiment.remeasured or trials. Throws DataError if the file has none of the candidates, or as read_remeasured.
  void compare_remeasured();

  /// Returns the results of an entry and share, one for each seed that is complete.
  std::vector<const TrialResult*> of(size_t entry, double fraction) const;
  /// Returns the spread of `metric` over the seeds of an entry and share that have a value.
  Spread spread(size_t entry, double fraction, const std::string& metric) const;
  /// Returns the metrics of the joined predictions of an entry's seeds; empty for fewer than two, or if joined() is.
  Metrics joined_metrics(size_t entry, double fraction) const;
  /// Returns the groups (GroupPredictions::group) on which any trial was evaluated, sorted, with C3 before C10.
  std::vector<std::string> groups() const;
  /// Returns the largest share of the training candidates that the experiment has.
  double whole() const { return experiment.fractions.back(); }
  /// Returns `metrics` with times converted from the unit of the data to display units.
  Metrics shown(const Metrics& metrics) const;

 private:
  /// Computes the metrics of a result that has all folds, and adds it to `trials`.
  void finish(TrialResult result);
  std::vector<TrialResult> unfinished_;  // results that lack folds
};

/// Returns results without trials; for `expected` see Results::expected.
Results begin_results(const Experiment& experiment, size_t expected);
/// Returns the spread of `values`; mean, low and high are NaN if there are none.
Spread spread_of(const std::vector<double>& values);

/// Returns a metric's value, in display units, with about three digits: "0.293", "12.3 %", "0.12 %"; "-" for NaN.
std::string metric_text(const std::string& metric, double value);
/// Returns the title of a metric, with the unit if it is a time: "ℓ1 (ms)"; `metric` if no metric has this name.
std::string metric_title(const std::string& metric, const TimeUnit& unit);

}  // namespace foretime::experiments
