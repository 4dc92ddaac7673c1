#pragma once

#include <string>
#include <string_view>

#include "configs/settings.h"

/// The metric of metrics/metric_table.h that a run chooses its best checkpoint by.
namespace foretime::configs {

/// Returns whether scores of a model that was trained with this loss can be converted to run times.
bool predicts_runtimes(const LossSettings& loss);

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
