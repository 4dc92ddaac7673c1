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

/// Returns a message, with values and a remedy, if a run with these settings cannot use trainer.metric for checkpoints:
/// unknown name, run times that the loss does not predict, metric that data.format lacks, early stopping on test, set
/// without groups, or a goal that takes the worst value for the best. Else returns "". The default metric of a set
/// without groups is a conflict only with early stopping or if `needed`, because runs are compared by it.
std::string find_metric_conflict(const Settings& settings, bool needed);

/// Returns a warning if trainer.metric chooses no checkpoint because the metric's set (test, or one without groups) is
/// not evaluated before the end; else "".
std::string metric_warning(const Settings& settings);

/// Returns whether larger values of trainer.metric are better: by trainer.metric_goal, or if auto, the metric's
/// direction; true for an unknown metric.
bool maximizes(const TrainerSettings& settings);

}  // namespace foretime::configs
