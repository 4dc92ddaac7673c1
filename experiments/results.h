#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/document.h"
#include "experiments/metrics.h"
#include "experiments/trials.h"

namespace foretime::experiments {

/// A trial that is complete, with all of its folds.
struct TrialResult {
  size_t entry = 0;
  double fraction = 1;
  uint64_t seed = 1;
  double seconds = 0;  // of all folds; 0: not known
  double memory = 0;   // MiB, the peaks of all ranks together, of the largest fold; 0: not known
  Predictions groups;
  Metrics metrics;  // over the groups, and those of the trial itself; times as they are shown
  std::vector<std::filesystem::path> folders = {};  // of the runs, with their rankings.csv
};

/// Values of several seeds.
struct Spread {
  size_t count = 0;
  double mean = 0, low = 0, high = 0;
  double deviation = 0;  // sample standard deviation; 0 for fewer than two
};

/// All that is known of an experiment: what its tables and figures are made from.
struct Results {
  Experiment experiment;
  TimeUnit unit;
  data::CandidateKind kind = data::CandidateKind::program;
  std::vector<TrialResult> trials;
  size_t expected = 0;  // trials in all, with those that are not complete; each fold is one
  size_t complete = 0;
  /// A second measurement as a prediction of the first, with what both drifted apart taken out; and with it left in.
  std::optional<Remeasurement> ceiling, drifted;
  Metrics ceiling_metrics, drifted_metrics;  // times as they are shown
  std::string note;                          // a sentence for the summary; may be empty

  /// Reads what a complete trial left in `folder`. `seconds` count where it left no resources.json. The folds of an
  /// entry, share and seed become a result when the last one is there. Throws data::DataError.
  void add(const Trial& trial, const std::filesystem::path& folder, double seconds);
  /// After the last trial: the second measurement, of the groups that were measured.
  void compare_remeasured();

  std::vector<const TrialResult*> of(size_t entry, double fraction) const;
  /// A metric over the seeds that have it.
  Spread spread(size_t entry, double fraction, const std::string& metric) const;
  /// The metrics of the seeds' joined predictions (see `joined`); empty for fewer than two seeds, and where
  /// `joined` is.
  Metrics joined_metrics(size_t entry, double fraction) const;
  /// Names of the groups that any trial was measured on.
  std::vector<std::string> groups() const;
  /// The largest share: "all training data".
  double whole() const { return experiment.fractions.back(); }
  Metrics shown(const Metrics& metrics) const;  // times in the unit of display

 private:
  void finish(TrialResult result);
  std::vector<TrialResult> unfinished_;  // of which folds are missing
};

Results begin_results(const Experiment& experiment, size_t expected);
Spread spread_of(const std::vector<double>& values);

/// 0.293, 12.3 % or 0.12 %, with about three significant digits; - for NaN.
std::string metric_text(const std::string& metric, double value);
/// "ℓ1 (ms)": the title with its unit.
std::string metric_title(const std::string& metric, const TimeUnit& unit);

}  // namespace foretime::experiments
