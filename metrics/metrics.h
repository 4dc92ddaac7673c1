#pragma once

#include <cstdint>
#include <span>
#include <vector>

/// Ranking and regression metrics of one group. `scores`: lower means predicted faster; `runtimes`: measured; both have
/// one value for each candidate, else BrokenInvariant is thrown.
///
/// An undefined metric is NaN: each function says when. All are NaN for no candidates, and if any value is NaN.
namespace foretime::metrics {

/// Returns Kendall's τ-b with ties in either sequence (Knight's algorithm). NaN for fewer than two candidates and if
/// all run times are equal; 0 if only the scores are equal.
double kendall_tau(std::span<const double> scores, std::span<const double> runtimes);
/// Returns the ordered pair accuracy: the fraction of pairs with different run times that the scores order correctly
/// (TpuGraphs); a tie in scores counts as wrong. NaN if all run times are equal, also for a single candidate.
double ordered_pair_accuracy(std::span<const double> scores, std::span<const double> runtimes);
/// Returns the pairwise accuracy: ordered_pair_accuracy, except that a tie in scores counts as half a correct pair.
double pairwise_accuracy(std::span<const double> scores, std::span<const double> runtimes);
/// Returns the area under the ROC curve of failures by score: the fraction of pairs of a failed (infinite run time) and
/// a successful candidate in which the failed one is scored higher (slower); a tie counts one half. NaN if none failed
/// or all failed.
double failure_auc(std::span<const double> scores, std::span<const double> runtimes);
/// Returns the smallest run time among the k candidates with the lowest scores, divided by the smallest of all,
/// minus 1. Of equal scores the earlier candidate comes first. 0 if k covers all candidates, and if all run times are
/// equal; NaN for no candidates and if a run time is not positive (unlabelled splits hold zeros). k is at least 1.
double top_k_slowdown(std::span<const double> scores, std::span<const double> runtimes, int64_t k);
/// Returns the smallest run time of all divided by the smallest among the k candidates with the lowest scores (TenSet's
/// top-k score): 1 / (1 + top_k_slowdown). NaN where top_k_slowdown is NaN.
double top_k_score(std::span<const double> scores, std::span<const double> runtimes, int64_t k);

/// Returns the mean absolute error; NaN for empty sequences.
double mean_absolute_error(std::span<const double> predicted, std::span<const double> measured);
/// Returns the root of the mean squared error; NaN for empty sequences.
double root_mean_squared_error(std::span<const double> predicted, std::span<const double> measured);
/// Returns the mean absolute percentage error as a fraction: 0.05 is 5 %. NaN for empty sequences and if a measured
/// value is 0.
double mean_absolute_percentage_error(std::span<const double> predicted, std::span<const double> measured);
/// Returns the coefficient of determination R²: 1 - squared residuals / squared deviations from the measured mean;
/// negative for predictions worse than that mean. NaN for empty sequences and if all measured values are equal.
double r_squared(std::span<const double> predicted, std::span<const double> measured);

/// Holds the predictions of a model for candidates of a group, [candidates] each.
struct Scores {
  std::vector<double> scores;     // lower means faster
  std::vector<double> predicted;  // run times in the group's unit; empty if the model only ranks
  // level_of each score (metrics/tie_thresholds.h): equal for scores that differ by noise only; empty: unknown
  std::vector<int64_t> levels = {};
  std::vector<double> failures = {};  // predicted chances of failure, 0 to 1; empty if the model predicts none
};

/// Joins the predictions of several models, one or more, for one list of candidates. If every member predicts a finite
/// run time above 0 for every candidate, scores and run times are the geometric mean of the predicted run times.
/// Otherwise scores are the mean of the members' scores, each scaled to mean 0 and deviation 1 over these candidates (0
/// if all are equal), and there are no run times. Chances of failure are averaged if all members have them. The result
/// has no levels, but the predictions of a single member are returned unchanged.
Scores joined_scores(const std::vector<Scores>& members);

/// Returns `values` scaled to mean 0 and deviation 1; zeros if they are equal.
std::vector<double> standardized(const std::vector<double>& values);
/// Returns the rank of each value in ascending order, from 0; equal values share the mean of their ranks.
std::vector<double> ranks_of(const std::vector<double>& values);

}  // namespace foretime::metrics
