#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "metrics/metrics.h"

/// All metrics that are reported: names, titles, directions and functions in one table, for settings that name a
/// metric, for evaluations, leaderboards and reports.
namespace foretime::metrics {

/// Names the ways of combining a metric's values of several groups.
enum class Mean : uint8_t {
  groups,              // the mean of the groups' values
  candidates,          // the mean of the groups' values, weighted by their numbers of candidates
  root_of_candidates,  // the root of the mean of the groups' squared values, weighted by their numbers of candidates
  trial,               // no mean: a property of the training run
};

/// The contest of TpuGraphs that a group's kind belongs to.
enum class Contest : uint8_t { none, layout, tile };

/// Holds the candidates of one group for Metric::value. Candidates that failed have an infinite run time.
struct GroupValues {
  std::span<const double> scores, runtimes;    // [candidates that ran]
  std::span<const double> levels;              // [candidates that ran] Scores::levels; empty: unknown
  std::span<const double> predicted_runtimes;  // [candidates that ran]; empty: the model only ranks
  std::span<const double> failure_scores;      // [all candidates] higher means more likely to fail
  std::span<const double> runtimes_of_all;     // [all candidates]
  Contest contest = Contest::none;
};

struct Metric {
  std::string_view name, title;  // name in settings and files; title in tables for people
  /// Returns the metric of a group, or NaN if it is undefined. Null: computed elsewhere (by an oracle, or of a trial).
  double (*value)(const GroupValues&) = nullptr;
  bool lower_is_better = false;
  bool time = false;            // has the unit of the run times
  bool percent = false;         // is a fraction, which tables show in percent
  bool of_predictions = false;  // needs predicted run times
  Mean mean = Mean::groups;
  bool of_runs = true;         // evaluations of a run report the metric as SET/NAME, such as valid/mae
  bool of_experiments = true;  // experiments may have the metric as a column

  bool over_candidates() const { return mean == Mean::candidates || mean == Mean::root_of_candidates; }
};

/// Returns all metrics in the order of reports.
std::span<const Metric> all_metrics();

/// Finds a metric by its name, from which a set (valid/mae) is removed up to the last slash; null if unknown.
const Metric* find_metric(std::string_view name);

/// Returns, by name, those metrics with a function Metric::value that are defined for a group. `runtimes`, one for each
/// score, are infinite for candidates that failed, which count in failure_auc only. kendall_tau is that of the levels
/// if they are known; then kendall_tau_of_scores is that of the scores, and otherwise it is left out.
std::map<std::string, double> group_metrics(const Scores& scores, std::span<const double> runtimes, Contest contest);

}  // namespace foretime::metrics
