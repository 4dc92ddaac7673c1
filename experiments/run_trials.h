#pragma once

#include <cstdint>
#include <vector>

#include "comm/communicator.h"
#include "experiments/trials.h"
#include "worker/evaluation/evaluator.h"

namespace foretime::experiments {

/// Makes the predictions of an entry that is no model of ours (mean, random, ceiling, xgboost) for the candidates that
/// a model with the trial's settings would be measured on, from those that it would be trained on, and writes them to
/// rankings.csv in the trial's folder. Trees over layout codes have none for groups that they did not learn from. One
/// rank alone calls it. Throws data::DataError, models::ModelError.
void run_baseline_trial(const ExperimentEntry& entry, const Trial& trial);

/// Boosted trees for one layout graph: a row a candidate, a column for each distinct layout of each configurable node,
/// 1 where the candidate has it. They learn the rank of the training candidates' run times, from 0 for the fastest to
/// 1, and score the evaluated ones. Nothing carries over to another graph: what is there to learn of one graph's
/// layouts alone, without looking at its operators.
worker::Scores score_layouts_by_trees(const worker::LoadedGroup& loaded, const XgboostSettings& settings, uint64_t seed,
                                      int64_t threads);

/// Whether a trial's predictions are there, made with these settings from these data; `seconds` that they took. Throws
/// configs::SettingsError where the folder holds a trial that was made otherwise, unless `overwrite` is set, and
/// data::DataError where the data cannot be listed.
struct TrialState {
  bool complete = false;
  bool stale = false;  // made otherwise, to be made anew
  double seconds = 0;
  std::string key;
};
class TrialStates {
 public:
  TrialState find(const ExperimentEntry& entry, const Trial& trial, bool overwrite);

 private:
  uint64_t fingerprint(const configs::Settings& settings);

  std::map<std::string, uint64_t> fingerprints_;  // of data, by the settings that choose them
};

/// Runs the trials that are not complete, one after another, each on all ranks; what was interrupted continues. All
/// ranks call it. False: pre-empted.
bool run_trials(const Experiment& experiment, const std::vector<Trial>& trials, bool overwrite,
                comm::Communicator& comm);

}  // namespace foretime::experiments
