#pragma once

#include <span>
#include <string>
#include <string_view>

#include "configs/settings.h"

/// The metrics that runs report, with their directions: one table for settings that name a metric, for evaluations,
/// leaderboards and reports.
namespace foretime::configs {

/// Names the items that a reported value averages over; `trial`: it is a property of the whole training run.
enum class MetricMean : uint8_t { groups, candidates, trial };

struct MetricInfo {
  std::string name, title;
  bool lower_is_better = false;
  bool time = false;     // has the unit of the run times
  bool percent = false;  // is a fraction
  MetricMean mean = MetricMean::groups;
  bool of_runs = true;         // evaluations report it as SET/NAME; false: only experiments have it
  bool of_experiments = true;  // experiments may have it as a column
};
/// Returns whether scores of a model that was trained with this loss can be converted to run times.
bool predicts_runtimes(const LossSettings& loss);

/// Returns all metrics, in the order of reports.
std::span<const MetricInfo> metrics();
/// Finds a metric by its name, with or without a set before it (valid/mae); null if it is unknown.
const MetricInfo* find_metric(std::string_view name);

/// Returns a message, with the nearest valid name, if `metric` is not a SET/NAME that runs can report; "" if it is.
std::string metric_name_fault(const std::string& metric);

/// Returns a message if a run with these settings will not measure trainer.metric, or would take its worst value for
/// the best: an unknown name, run times that the loss does not predict, a set without groups, the opposite direction.
/// It names the settings, their values and a remedy. Returns "" if there is no conflict. The default metric may be one
/// that is not measured, because the user has not asked for it, unless it is `needed` for comparing runs.
std::string find_metric_conflict(const Settings& settings, bool needed);

/// Returns a warning if the metric does not choose checkpoints; "" if it does.
std::string metric_warning(const Settings& settings);

/// Returns whether larger values of trainer.metric are better, by trainer.metric_goal or, if that is auto, the metric's
/// direction.
bool maximizes(const TrainerSettings& settings);

}  // namespace foretime::configs
