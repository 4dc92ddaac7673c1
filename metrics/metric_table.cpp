#include "metrics/metric_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"

namespace foretime::metrics {
namespace {

using Values = std::span<const double>;
using Group = GroupValues;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

template <double (*function)(Values, Values)>
double of_scores(const Group& g) {
  return function(g.scores, g.runtimes);
}

template <double (*function)(Values, Values)>
double of_predictions(const Group& g) {
  return g.predicted_runtimes.empty() ? kNone : function(g.predicted_runtimes, g.runtimes);
}

template <int64_t k>
double slowdown(const Group& g) {
  return top_k_slowdown(g.scores, g.runtimes, k);
}

template <int64_t k>
double top_score(const Group& g) {
  return top_k_score(g.scores, g.runtimes, k);
}

double tau(const Group& g) { return kendall_tau(g.levels.empty() ? g.scores : g.levels, g.runtimes); }

double tau_of_scores(const Group& g) { return g.levels.empty() ? kNone : kendall_tau(g.scores, g.runtimes); }

/// The Kaggle contest on TpuGraphs scores layouts by τ, and tiles by 1 - top-5 slowdown, which is 2 - best of top 5 /
/// best.
double contest_score(const Group& g) {
  if (g.contest == Contest::none) return kNone;
  return g.contest == Contest::layout ? kendall_tau(g.scores, g.runtimes) : 1 - slowdown<5>(g);
}

double failures(const Group& g) {
  return g.scores.size() == g.runtimes_of_all.size() ? kNone : failure_auc(g.failure_scores, g.runtimes_of_all);
}

constexpr Metric kMetrics[] = {
    {.name = "mae",
     .title = "ℓ1",
     .value = of_predictions<mean_absolute_error>,
     .lower_is_better = true,
     .time = true,
     .of_predictions = true,
     .mean = Mean::candidates},
    {.name = "rmse",
     .title = "RMSE",
     .value = of_predictions<root_mean_squared_error>,
     .lower_is_better = true,
     .time = true,
     .of_predictions = true,
     .mean = Mean::root_of_candidates},
    {.name = "mape",
     .title = "MAPE",
     .value = of_predictions<mean_absolute_percentage_error>,
     .lower_is_better = true,
     .percent = true,
     .of_predictions = true,
     .mean = Mean::candidates},
    {.name = "r_squared", .title = "R²", .value = of_predictions<r_squared>, .of_predictions = true},
    {.name = "kendall_tau", .title = "Kendall's τ-b", .value = tau},
    {.name = "kendall_tau_of_scores", .title = "τ-b of scores", .value = tau_of_scores},
    {.name = "noise_ceiling_tau", .title = "noise ceiling of τ-b", .of_experiments = false},
    {.name = "opa", .title = "ordered pair accuracy", .value = of_scores<ordered_pair_accuracy>},
    {.name = "pairwise_accuracy", .title = "pairwise accuracy", .value = of_scores<pairwise_accuracy>},
    {.name = "contest_score", .title = "contest score", .value = contest_score},
    {.name = "failure_auc", .title = "AUC of failures", .value = failures},
    {.name = "accuracy", .title = "accuracy", .of_runs = false},
    {.name = "top1_score", .title = "top-1 score", .value = top_score<1>},
    {.name = "top5_score", .title = "top-5 score", .value = top_score<5>},
    {.name = "top1_slowdown",
     .title = "top-1 slowdown",
     .value = slowdown<1>,
     .lower_is_better = true,
     .percent = true},
    {.name = "top5_slowdown",
     .title = "top-5 slowdown",
     .value = slowdown<5>,
     .lower_is_better = true,
     .percent = true},
    {.name = "top10_slowdown",
     .title = "top-10 slowdown",
     .value = slowdown<10>,
     .lower_is_better = true,
     .percent = true},
    {.name = "top100_slowdown",
     .title = "top-100 slowdown",
     .value = slowdown<100>,
     .lower_is_better = true,
     .percent = true},
    {.name = "seconds", .title = "seconds", .lower_is_better = true, .mean = Mean::trial, .of_runs = false},
    {.name = "memory", .title = "memory (MiB)", .lower_is_better = true, .mean = Mean::trial, .of_runs = false},
};

/// The values of the candidates that ran; none where `values` are none.
std::vector<double> that_ran(Values values, Values runtimes) {
  std::vector<double> kept;
  for (size_t i = 0; i < values.size(); ++i)
    if (!std::isinf(runtimes[i])) kept.push_back(values[i]);
  return kept;
}

}  // namespace

std::span<const Metric> all_metrics() { return kMetrics; }

const Metric* find_metric(std::string_view name) {
  const auto* found = std::ranges::find(kMetrics, name.substr(name.rfind('/') + 1), &Metric::name);
  return found == std::end(kMetrics) ? nullptr : found;
}

std::map<std::string, double> group_metrics(const Scores& scores, Values runtimes, Contest contest) {
  FORETIME_CHECK(scores.scores.size() == runtimes.size());
  FORETIME_CHECK(scores.predicted.empty() || scores.predicted.size() == runtimes.size());
  const auto ran = that_ran(scores.scores, runtimes), runtimes_ran = that_ran(runtimes, runtimes);
  const auto predicted = that_ran(scores.predicted, runtimes);
  const auto levels = that_ran(std::vector<double>(scores.levels.begin(), scores.levels.end()), runtimes);
  const Group group{.scores = ran,
                    .runtimes = runtimes_ran,
                    .levels = levels,
                    .predicted_runtimes = predicted,
                    .failure_scores = scores.failures.empty() ? scores.scores : scores.failures,
                    .runtimes_of_all = runtimes,
                    .contest = contest};
  std::map<std::string, double> metrics;
  for (const Metric& metric : kMetrics) {
    const double value = metric.value == nullptr ? kNone : metric.value(group);
    if (!std::isnan(value)) metrics.emplace(metric.name, value);
  }
  return metrics;
}

}  // namespace foretime::metrics
