#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "data/graphs/group.h"

/// Ranking and regression metrics of one group, under the names the field uses. `scores`: lower means predicted faster;
/// `runtimes`: measured. All are O(n log n) or better.
///
/// NaN stands for a metric that is undefined: each function says when. Every metric is NaN where a score, a prediction
/// or a run time is NaN. Sequences of different lengths throw ModelError.
namespace foretime::models {

/// Kendall's τ-b with ties in either sequence (Knight's algorithm). NaN for fewer than two candidates and where all run
/// times are equal, 0 where only the scores are.
double kendall_tau(std::span<const double> scores, std::span<const double> runtimes);
/// Ordered pair accuracy: of the pairs with different run times, the fraction ordered rightly (TpuGraphs); a tie in
/// scores counts as wrong. NaN where no two run times differ.
double ordered_pair_accuracy(std::span<const double> scores, std::span<const double> runtimes);
/// Pairwise accuracy: as OPA, with a tie in scores counting one half.
double pairwise_accuracy(std::span<const double> scores, std::span<const double> runtimes);
/// Of the pairs of a candidate that failed (of infinite run time) and one that ran, the fraction in which the one that
/// failed is scored higher (slower), a tie counting one half: the area under the ROC curve of telling failures by the
/// score. NaN where none failed or none ran.
double failure_auc(std::span<const double> scores, std::span<const double> runtimes);
/// Best run time among the k best-scored candidates, over the best of all, minus 1. Ties in scores are broken by
/// position. 0 where k reaches all candidates, for a single candidate, and where all run times are equal; NaN for no
/// candidates and where a run time is not positive (unlabelled splits hold zeros). Throws ModelError for k < 1.
double top_k_slowdown(std::span<const double> scores, std::span<const double> runtimes, int64_t k);
/// Best run time of all over the best among the k best-scored (TenSet's top-k score): 1 / (1 + slowdown).
double top_k_score(std::span<const double> scores, std::span<const double> runtimes, int64_t k);

/// NaN for empty sequences, as the two below.
double mean_absolute_error(std::span<const double> predicted, std::span<const double> measured);
double root_mean_squared_error(std::span<const double> predicted, std::span<const double> measured);
/// Mean absolute percentage error, as a fraction: 0.05 is 5 %. NaN where a measured value is 0.
double mean_absolute_percentage_error(std::span<const double> predicted, std::span<const double> measured);
/// Coefficient of determination R²: 1 - squared residuals over squared deviations from the measured mean; negative for
/// a prediction that is worse than the mean. NaN where the measured values are all equal.
double r_squared(std::span<const double> predicted, std::span<const double> measured);

/// What a model says of some candidates of a group.
struct Scores {
  std::vector<double> scores;        // lower means faster
  std::vector<double> predicted;     // run times in the group's unit; empty where the model only ranks
  std::vector<int64_t> levels = {};  // ascending with the scores: equal where they differ by noise only; empty: unknown
  std::vector<double> failures = {};  // chances of failure, 0 to 1; empty where the model says none
};

/// What several models say together of the same candidates in the same order: the geometric mean of the predicted run
/// times, as scores too, where every member predicts a run time above 0 for every candidate. Else the mean of the
/// members' scores, each with mean 0 and deviation 1 over these candidates (all 0 where they are equal), and no run
/// times. The mean of their chances of failure, where all have these. Levels are a single member's, whose scores are
/// given back as they are.
Scores joined_scores(const std::vector<Scores>& members);

/// kendall_tau, opa, pairwise_accuracy, top{1,5,10,100}_slowdown, top{1,5}_score. Layout and tile groups also have
/// contest_score, as the Kaggle contest on TpuGraphs scored them: τ (layout) or 1 - top5_slowdown, that is
/// 2 - best-of-top-5 / best (tile). Where candidates failed, all of these are of those that ran, and failure_auc is
/// there as well. NaN: undefined for this group (models/metrics.h says when), so leave it out of averages.
std::map<std::string, double> ranking_metrics(std::span<const double> scores, std::span<const double> runtimes,
                                              data::CandidateKind kind);

/// The same of scores that may have levels: kendall_tau then counts candidates of one level as tied, and
/// kendall_tau_of_scores is that of the bare scores. failure_auc is that of the chances of failure, where there are
/// any.
std::map<std::string, double> ranking_metrics(const Scores& scores, std::span<const double> runtimes,
                                              data::CandidateKind kind);

/// mae, rmse (in the unit of the run times), mape (a fraction), r_squared of predicted run times, of candidates that
/// ran. NaN: undefined.
std::map<std::string, double> regression_metrics(std::span<const double> predicted, std::span<const double> measured);

}  // namespace foretime::models
