#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/experiment/document.h"
#include "cli/experiment/metrics.h"
#include "cli/experiment/trials.h"

namespace foretime::cli {

/// A trial that is complete.
struct TrialResult {
  size_t entry = 0;
  double fraction = 1;
  uint64_t seed = 1;
  double seconds = 0;  // 0: not known
  Predictions groups;
  Metrics metrics;  // over the groups; times as they are shown
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
  size_t expected = 0;  // trials in all, with those that are not complete
  /// A second measurement as a prediction of the first, with what both drifted apart taken out; and with it left in.
  std::optional<Remeasurement> ceiling;
  Metrics ceiling_metrics, drifted_metrics;  // times as they are shown

  /// Reads what a complete trial left in `folder`.
  void add(const Trial& trial, const std::filesystem::path& folder, double seconds);
  /// After the last trial: the second measurement, of the groups that were measured.
  void compare_remeasured();

  std::vector<const TrialResult*> of(size_t entry, double fraction) const;
  /// A metric over the seeds that have it, of one group, or over all where `group` is empty.
  Spread spread(size_t entry, double fraction, const std::string& metric, const std::string& group = "") const;
  /// The metrics of the seeds' joined predictions (see `joined`); empty for fewer than two seeds, and where
  /// `joined` is.
  Metrics joined_metrics(size_t entry, double fraction) const;
  /// Names of the groups that any trial was measured on.
  std::vector<std::string> groups() const;
  /// The largest share: "all training data".
  double whole() const { return experiment.fractions.back(); }
  Metrics shown(const Metrics& metrics) const;  // times in the unit of display
};

Results begin_results(const Experiment& experiment, size_t expected);
Spread spread_of(const std::vector<double>& values);

/// 0.293 or 12.3 %, with three significant digits; - for NaN.
std::string metric_text(const std::string& metric, double value);
/// "ℓ1 (ms)": the title with its unit.
std::string metric_title(const std::string& metric, const TimeUnit& unit);

}  // namespace foretime::cli
