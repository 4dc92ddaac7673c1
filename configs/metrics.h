#pragma once

#include <span>
#include <string>
#include <string_view>

#include "configs/settings.h"

/// The metrics that runs report, with their directions: one table for settings that name a metric, for evaluations,
/// leaderboards and reports.
namespace foretime::configs {

/// What a reported value is a mean over; `trial`: it is no mean, and of the training run itself.
enum class MetricMean : uint8_t { groups, candidates, trial };

struct MetricInfo {
  std::string name, title;
  bool lower_is_better = false;
  bool time = false;     // in the run times' unit
  bool percent = false;  // a fraction
  MetricMean mean = MetricMean::groups;
  bool of_runs = true;         // evaluations report it as SET/NAME; else it is of experiments alone
  bool of_experiments = true;  // a column that experiments may have
};
/// Whether scores of a model that was trained with this loss can be turned into run times.
bool predicts_runtimes(const LossSettings& loss);

/// In the order of reports.
std::span<const MetricInfo> metrics();
/// By its name, with or without the set before it (valid/mae); null for one that is not known.
const MetricInfo* find_metric(std::string_view name);

/// Why `metric` is no SET/NAME that a run can report, whatever its other settings are, with the nearest one that is;
/// empty where it is one.
std::string metric_name_fault(const std::string& metric);

/// Why a run with these settings will not measure trainer.metric, or would take its worst value for the best: an
/// unknown name, run times that the loss does not predict, a set without groups, the opposite direction. Names the
/// settings, their values and what to do; empty where all is well. The default metric may be one that is not measured,
/// because nobody has asked for it, unless it is `needed` (by whoever compares runs).
std::string find_metric_conflict(const Settings& settings, bool needed);

/// What to know of a metric that chooses no checkpoint, for people; empty where it chooses one.
std::string metric_warning(const Settings& settings);

/// trainer.metric_goal; where it is auto, the metric's own direction.
bool maximizes(const TrainerSettings& settings);

}  // namespace foretime::configs
