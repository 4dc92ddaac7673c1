#pragma once

#include "experiments/trials.h"

namespace foretime::experiments {

/// Makes the predictions of an entry that is no model of ours (mean, random, ceiling, xgboost) for the candidates that
/// a model with the trial's settings would be measured on, from those that it would be trained on, and writes them to
/// rankings.csv in the trial's folder. Trees over layout codes have none for groups that they did not learn from. One
/// rank alone calls it. Throws data::DataError, models::ModelError.
void run_baseline_trial(const ExperimentEntry& entry, const Trial& trial);

}  // namespace foretime::experiments
