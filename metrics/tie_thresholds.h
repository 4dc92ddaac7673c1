#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace foretime::metrics {

/// Returns ascending thresholds that divide scores into levels: runs of neighbouring scores that are treated as equal.
/// Candidates whose run times differ by less than the measurement noise have no true order, and a ranking that orders
/// them is wrong half the time. The levels approximately maximise Kendall's τ-b between levels and measured run times.
///
/// Scores are first divided into at most `bins` runs of about equal size. Then the two neighbouring runs whose union
/// increases τ-b most are joined, until no union increases it or two are left. Equal scores share a level. Returns an
/// empty list (one level) if all scores or all run times are equal, and for fewer than two scores.
std::vector<double> level_thresholds(std::span<const double> scores, std::span<const double> runtimes,
                                     int64_t bins = 200);

/// Returns the level of a score: the number of thresholds at or below it; 0 is the fastest.
int64_t level_of(std::span<const double> thresholds, double score);

}  // namespace foretime::metrics
