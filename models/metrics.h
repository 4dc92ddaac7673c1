#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

/// Ranking and regression metrics of one group, under the names the field uses. `scores`: lower means predicted faster;
/// `runtimes`: measured. All are O(n log n) or better. NaN where a metric is undefined (fewer than two candidates, all run times equal).
namespace foretime::models {

/// Kendall's τ-b with ties in either sequence (Knight's algorithm). NaN where the run times are constant, 0 where only the scores are.
double kendall_tau(std::span<const double> scores, std::span<const double> runtimes);
/// Ordered pair accuracy: of the pairs with different run times, the fraction ordered rightly (TpuGraphs); a tie in scores counts as wrong.
double ordered_pair_accuracy(std::span<const double> scores, std::span<const double> runtimes);
/// Pairwise accuracy: as OPA, with a tie in scores counting one half.
double pairwise_accuracy(std::span<const double> scores, std::span<const double> runtimes);
/// Best run time among the k best-scored candidates, over the best of all, minus 1. Ties in scores are broken by position.
double top_k_slowdown(std::span<const double> scores, std::span<const double> runtimes, int64_t k);
/// Best run time of all over the best among the k best-scored (TenSet's top-k score): 1 / (1 + slowdown).
double top_k_score(std::span<const double> scores, std::span<const double> runtimes, int64_t k);

double mean_absolute_error(std::span<const double> predicted, std::span<const double> measured);
double root_mean_squared_error(std::span<const double> predicted, std::span<const double> measured);
/// Mean absolute percentage error, as a fraction.
double mean_absolute_percentage_error(std::span<const double> predicted, std::span<const double> measured);

/// τ-b that an oracle reaches which predicts each distinct configuration's mean run time: measurement noise bounds every model by it.
/// 1 where no configuration repeats.
double noise_ceiling_tau(std::span<const uint64_t> configuration_hashes, std::span<const double> runtimes);

}  // namespace foretime::models
