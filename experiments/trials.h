#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/run_directory.h"
#include "experiments/document.h"
#include "jobs/queue/queue_reader.h"
#include "jobs/sweep/sweep.h"

namespace foretime::comm {
class Communicator;
}

namespace foretime::experiments {

/// One run of an experiment: an entry with a share of the training data and a seed, or one fold of it.
struct Trial {
  size_t entry = 0;
  double fraction = 1;
  uint64_t seed = 1;
  configs::Settings settings;    // what `foretime train` would be given; of all kinds: they say which candidates
  std::filesystem::path folder;  // OUT/trials/ENTRY/fraction-F/seed-S, with folds …/fold-N
  int64_t fold = -1;             // -1: no folds
};

/// All trials: of the first seed those with all training data first, so that what is there early tells the most.
/// Reads headers where there are folds. Throws ExperimentError where the settings of one contradict each other, and
/// data::DataError as make_folds.
std::vector<Trial> trials_of(const Experiment& experiment, const std::filesystem::path& out);

/// "GCN, 25 % of the training data, seed 2"
std::string describe(const Experiment& experiment, const Trial& trial);

/// What a trial's predictions depend on, as text: kind and parameters of its entry, and all settings but those that say
/// where and how fast it runs.
std::string trial_key(const ExperimentEntry& entry, const configs::Settings& settings);

/// What its training depends on: as trial_key, without the test groups, and without the files of features of boosted
/// trees, which are trained anew whenever they are measured.
std::string training_key(const ExperimentEntry& entry, const configs::Settings& settings);

/// A trial that is complete has trial.json beside its rankings.csv, written last.
struct TrialRecord {
  std::string key;       // content id of trial_key and of the data's fingerprint
  std::string training;  // content id of training_key and of the fingerprint without test groups; empty where an
                         // earlier version wrote it
  double seconds = 0;    // that it took, without earlier attempts
};
/// Empty where there is none, or a damaged one.
std::optional<TrialRecord> read_trial_record(const std::filesystem::path& folder);
void write_trial_record(const std::filesystem::path& folder, const TrialRecord& record);
std::string record_key(const ExperimentEntry& entry, const configs::Settings& settings, uint64_t data_fingerprint);
std::string training_record_key(const ExperimentEntry& entry, const configs::Settings& settings,
                                uint64_t training_fingerprint);

/// The trials of kind model as jobs of one sweep: `foretime status` and `foretime leaderboard` show it like any other.
/// Jobs stand in the order of the trials, and have the names of their folders. Throws ExperimentError.
jobs::Sweep sweep_of(const Experiment& experiment, const std::vector<Trial>& trials, const jobs::Resources& resources,
                     int64_t priority);

/// The trials of kind model that ran as jobs.
struct CollectedTrial {
  size_t trial = 0;              // position
  std::filesystem::path folder;  // of the attempt that succeeded, with its rankings.csv
  double seconds = 0;
};
struct Collection {
  std::vector<CollectedTrial> trials;
  std::map<std::string, int64_t> others;  // how many are in which other state; "not submitted" among them
};

/// Finds the jobs of `sweep_of` by their ids. `runs`: the agents' run root, as this machine sees it. Throws
/// jobs::JobsError where a job that succeeded has no rankings.csv there.
Collection collect(const Experiment& experiment, const std::vector<Trial>& trials, const jobs::Sweep& sweep,
                   jobs::QueueReader& reader, const std::filesystem::path& runs);

/// Whether a trial's predictions are there, made with these settings from these data; `seconds` that they took. Throws
/// configs::SettingsError where the folder holds a trial that was made otherwise, unless `overwrite` is set, and
/// data::DataError where the data cannot be listed.
struct TrialState {
  bool complete = false;
  bool stale = false;    // made otherwise, to be made anew
  bool trained = false;  // as it is wanted, but measured on other test groups: these are measured, nothing is trained
  double seconds = 0;
  std::string key, training;
};
class TrialStates {
 public:
  TrialState find(const ExperimentEntry& entry, const Trial& trial, bool overwrite);

 private:
  coordinator::DataFingerprints fingerprints(const configs::Settings& settings);

  std::map<std::string, coordinator::DataFingerprints> fingerprints_;  // by the settings that choose the data
};

/// Runs the trials that are not complete, one after another, each on all ranks; what was interrupted continues. All
/// ranks call it. False: pre-empted.
bool run_trials(const Experiment& experiment, const std::vector<Trial>& trials, bool overwrite,
                comm::Communicator& comm);

}  // namespace foretime::experiments
