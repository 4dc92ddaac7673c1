#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "metrics/metrics.h"

/// All metrics that are reported: names, titles, directions and functions in one table, for settings that name a
/// metric, for evaluations, leaderboards and reports.
namespace foretime::metrics {

/// Names the ways of combining the values of several groups.
enum class Mean : uint8_t {
  groups,              // the mean over groups
  candidates,          // the mean over candidates
  root_of_candidates,  // the root of the mean of squares over candidates
  trial,               // no mean: a property of the training run
};

/// The contest of TpuGraphs that a group's kind belongs to.
enum class Contest : uint8_t { none, layout, tile };

/// The candidates of one group as the functions of metrics see them. Failed candidates have an infinite run time.
struct GroupValues {
  std::span<const double> scores, runtimes;    // [candidates that ran]
  std::span<const double> levels;              // [candidates that ran]; empty: unknown
  std::span<const double> predicted_runtimes;  // [candidates that ran]; empty: the model only ranks
  std::span<const double> failure_scores;      // [all candidates] higher means more likely to fail
  std::span<const double> runtimes_of_all;     // [all candidates]
  Contest contest = Contest::none;
};

struct Metric {
  std::string_view name, title;
  /// Returns the metric of a group, or NaN if it is undefined. Null: computed elsewhere (by an oracle, or of a trial).
  double (*value)(const GroupValues&) = nullptr;
  bool lower_is_better = false;
  bool time = false;            // has the unit of the run times
  bool percent = false;         // is a fraction
  bool of_predictions = false;  // needs predicted run times
  Mean mean = Mean::groups;
  bool of_runs = true;         // evaluations report it as SET/NAME
  bool of_experiments = true;  // experiments may have it as a column

  bool over_candidates() const { return mean == Mean::candidates || mean == Mean::root_of_candidates; }
};

/// Returns all metrics in the order of reports.
std::span<const Metric> all_metrics();

/// Finds a metric by its name, with or without the set before it (valid/mae). Returns null for an unknown name.
const Metric* find_metric(std::string_view name);

/// Computes all metrics of a group that are defined, by name. Without levels, kendall_tau_of_scores is left out.
/// Candidates that failed count in failure_auc only.
std::map<std::string, double> group_metrics(const Scores& scores, std::span<const double> runtimes, Contest contest);

}  // namespace foretime::metrics
