#pragma once

#include <cstdint>
#include <span>

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

/// τ-b that an oracle reaches which predicts each distinct configuration's mean run time: measurement noise bounds
/// every model by it. 1 where no configuration repeats.
double noise_ceiling_tau(std::span<const uint64_t> configuration_hashes, std::span<const double> runtimes);

}  // namespace foretime::models
