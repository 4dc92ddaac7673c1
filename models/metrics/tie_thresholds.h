#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace foretime::models {

/// Which differences between scores mean something. Candidates whose run times differ by less than the noise of their
/// measurement have no true order, and a ranking that claims one is wrong half the time; Kendall's τ-b counts ties of a
/// ranking as what they are. Levels are runs of neighbouring scores that are taken for equal: of a graph whose
/// candidates were measured, those that make τ-b between levels and run times largest.
///
/// Found from below: scores begin in at most `bins` runs of about equal size, and of all neighbouring runs those two
/// are joined, again and again, that gain τ-b most, until none does. Equal scores are never apart.
///   → ascending thresholds; empty where nothing can be said (fewer than two scores, or all run times equal)
std::vector<double> level_thresholds(std::span<const double> scores, std::span<const double> runtimes,
                                     int64_t bins = 200);

/// How many thresholds a score is above or at: its level, 0 for the fastest.
int64_t level_of(std::span<const double> thresholds, double score);

}  // namespace foretime::models
