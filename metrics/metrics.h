#pragma once

#include <cstdint>
#include <span>
#include <vector>

/// Ranking and regression metrics of one group, under the names the field uses. `scores`: lower means predicted faster;
/// `runtimes`: measured. All are O(n log n) or better.
///
/// A metric that is undefined is NaN: each function says when. Every metric is NaN if a score, a prediction or a run
/// time is NaN. Both sequences have one length.
namespace foretime::metrics {

/// Returns Kendall's τ-b with ties in either sequence (Knight's algorithm). NaN for fewer than two candidates and if
/// all run times are equal; 0 if only the scores are equal.
double kendall_tau(std::span<const double> scores, std::span<const double> runtimes);
/// Returns the ordered pair accuracy: the fraction of pairs with different run times that the scores order correctly
/// (TpuGraphs); a tie in scores counts as wrong. NaN if all run times are equal.
double ordered_pair_accuracy(std::span<const double> scores, std::span<const double> runtimes);
/// Returns the pairwise accuracy: the ordered pair accuracy, but a tie in scores counts one half.
double pairwise_accuracy(std::span<const double> scores, std::span<const double> runtimes);
/// Returns the area under the ROC curve of failures by score: the fraction of pairs of a failed (infinite run time) and
/// a successful candidate in which the failed one is scored higher (slower); a tie counts one half. NaN if none failed
/// or all failed.
double failure_auc(std::span<const double> scores, std::span<const double> runtimes);
/// Returns the best run time among the k best-scored candidates divided by the best of all, minus 1. Ties in scores are
/// broken by position. 0 if k covers all candidates, and if all run times are equal; NaN for no candidates and if a run
/// time is not positive (unlabelled splits hold zeros). k is at least 1.
double top_k_slowdown(std::span<const double> scores, std::span<const double> runtimes, int64_t k);
/// Returns the best run time of all divided by the best among the k best-scored (TenSet's top-k score): 1 / (1 +
/// slowdown).
double top_k_score(std::span<const double> scores, std::span<const double> runtimes, int64_t k);

/// Returns the mean absolute error; NaN for empty sequences.
double mean_absolute_error(std::span<const double> predicted, std::span<const double> measured);
/// Returns the root of the mean squared error; NaN for empty sequences.
double root_mean_squared_error(std::span<const double> predicted, std::span<const double> measured);
/// Returns the mean absolute percentage error as a fraction: 0.05 is 5 %. NaN for empty sequences and if a measured
/// value is 0.
double mean_absolute_percentage_error(std::span<const double> predicted, std::span<const double> measured);
/// Returns the coefficient of determination R²: 1 - squared residuals / squared deviations from the measured mean;
/// negative for a prediction worse than the mean. NaN if the measured values are all equal.
double r_squared(std::span<const double> predicted, std::span<const double> measured);

/// Holds the predictions of a model for candidates of a group, [candidates] each.
struct Scores {
  std::vector<double> scores;     // lower means faster
  std::vector<double> predicted;  // run times in the group's unit; empty if the model only ranks
  // ascending with the scores; equal for scores that differ by noise only; empty: unknown
  std::vector<int64_t> levels = {};
  std::vector<double> failures = {};  // chances of failure, 0 to 1; empty if the model has none
};

/// Joins the predictions of several models for one list of candidates. Scores and run times are the geometric mean of
/// the predicted run times, if every member predicts a run time above 0 for every candidate. Otherwise scores are the
/// mean of the members' scores, each scaled to mean 0 and deviation 1 over these candidates (0 if all are equal), and
/// there are no run times. Chances of failure are averaged if all members have them. The predictions of a single member
/// are returned unchanged; only they have levels.
Scores joined_scores(const std::vector<Scores>& members);

}  // namespace foretime::metrics
