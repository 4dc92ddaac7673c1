#pragma once

#include <vector>

#include "comm/communicator.h"
#include "experiments/trials.h"

namespace foretime::experiments {

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
