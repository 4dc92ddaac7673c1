#pragma once

#include <string>
#include <string_view>

#include "configs/settings.h"

/// Checks of trainer.metric, the metric of metrics/metric_table.h that a run chooses its best checkpoint by.
namespace foretime::configs {

/// Returns whether scores of a model that was trained with this loss can be converted to run times.
bool predicts_runtimes(const LossSettings& loss);

/// Returns "" if `metric` is a SET/NAME that can choose checkpoints, otherwise a message with the nearest such name.
std::string metric_name_fault(const std::string& metric);

/// Returns a message if a run with these settings cannot choose checkpoints by trainer.metric, or would take the worst
/// value for the best: an unknown name, run times that the loss does not predict, a set without groups, the opposite
/// direction. The message names the settings, their values and a remedy; "" if there is no conflict. The default metric
/// of a set without groups is a conflict only with early stopping or if `needed`, because runs are compared by it.
std::string find_metric_conflict(const Settings& settings, bool needed);

/// Returns a warning if a run does not evaluate the set of the metric, which then chooses no checkpoint; else "".
std::string metric_warning(const Settings& settings);

/// Returns whether larger values of trainer.metric are better: by trainer.metric_goal, or if auto, the metric's
/// direction.
bool maximizes(const TrainerSettings& settings);

}  // namespace foretime::configs
