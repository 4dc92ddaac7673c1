#pragma once

#include <string>
#include <string_view>

#include "configs/settings.h"

/// Which metric of metrics/metric_table.h a run chooses by.
namespace foretime::configs {

/// Whether scores of a model that was trained with this loss can be turned into run times.
bool predicts_runtimes(const LossSettings& loss);

/// Why `metric` is no SET/NAME that a run can report, whatever its other settings are, with the nearest one that is;
/// empty where it is one.
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
