#pragma once

#include <map>
#include <span>
#include <string>

#include "data/graphs/group.h"
#include "models/metrics/ensemble.h"

/// All metrics of one group by name, as logs and result tables show them.
namespace foretime::models {

/// kendall_tau, opa, pairwise_accuracy, top{1,5,10,100}_slowdown, top{1,5}_score. Layout and tile groups also have
/// contest_score, as the Kaggle contest on TpuGraphs scored them: τ (layout) or 1 - top5_slowdown, that is
/// 2 - best-of-top-5 / best (tile). NaN: undefined for this group (models/metrics.h says when), so leave it out of
/// averages.
std::map<std::string, double> ranking_metrics(std::span<const double> scores, std::span<const double> runtimes,
                                              data::CandidateKind kind);

/// The same of scores that may have levels: kendall_tau then counts candidates of one level as tied, and
/// kendall_tau_of_scores is that of the bare scores.
std::map<std::string, double> ranking_metrics(const Scores& scores, std::span<const double> runtimes,
                                              data::CandidateKind kind);

/// mae, rmse (in the unit of the run times), mape (a fraction), r_squared of predicted run times. NaN: undefined.
std::map<std::string, double> regression_metrics(std::span<const double> predicted, std::span<const double> measured);

}  // namespace foretime::models
