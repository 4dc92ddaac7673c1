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

/// Describes one run of an experiment: an entry with a share of the training data and a seed, or one fold of it.
struct Trial {
  size_t entry = 0;
  double fraction = 1;
  uint64_t seed = 1;
  configs::Settings settings;    // settings for `foretime train`; for all kinds, since they select the candidates
  std::filesystem::path folder;  // OUT/trials/ENTRY/fraction-F/seed-S, with folds …/fold-N
  int64_t fold = -1;             // -1: no folds
};

/// Returns all trials. Trials of the first seed with all training data come first, so that early results are the most
/// informative. Reads headers if there are folds. Throws ExperimentError if settings contradict each other, and
/// data::DataError like make_folds.
std::vector<Trial> trials_of(const Experiment& experiment, const std::filesystem::path& out);

/// Returns a text such as "GCN, 25 % of the training data, seed 2".
std::string describe(const Experiment& experiment, const Trial& trial);

/// Returns everything that a trial's predictions depend on, as text: kind and parameters of its entry, and all settings
/// except those about where and how fast it runs.
std::string trial_key(const ExperimentEntry& entry, const configs::Settings& settings);

/// Returns everything that a trial's training depends on: trial_key without the test groups and without the feature
/// files of boosted trees, which are trained again at every evaluation.
std::string training_key(const ExperimentEntry& entry, const configs::Settings& settings);

/// Holds the content of trial.json, which is written last into the folder of a complete trial, next to its
/// rankings.csv.
struct TrialRecord {
  std::string key;       // content id of trial_key and of the data's fingerprint
  std::string training;  // content id of training_key and of the fingerprint without test groups
  double seconds = 0;    // duration of the last attempt
};
/// Reads a trial's record; empty if it is missing or damaged.
std::optional<TrialRecord> read_trial_record(const std::filesystem::path& folder);
void write_trial_record(const std::filesystem::path& folder, const TrialRecord& record);
/// Returns the content id for TrialRecord::key; training_record_key() that for TrialRecord::training.
std::string record_key(const ExperimentEntry& entry, const configs::Settings& settings, uint64_t data_fingerprint);
std::string training_record_key(const ExperimentEntry& entry, const configs::Settings& settings,
                                uint64_t training_fingerprint);

/// Returns the trials of kind model as jobs of one sweep, which `foretime status` and `foretime leaderboard` show like
/// any other. Jobs are in the order of the trials and have the names of their folders. Throws ExperimentError.
jobs::Sweep sweep_of(const Experiment& experiment, const std::vector<Trial>& trials, const jobs::Resources& resources,
                     int64_t priority);

/// Describes a trial of kind model that ran as a job.
struct CollectedTrial {
  size_t trial = 0;              // index of the trial
  std::filesystem::path folder;  // folder of the successful attempt, with its rankings.csv
  double seconds = 0;
};
/// Holds the trials that a queue has completed, and counts the others.
struct Collection {
  std::vector<CollectedTrial> trials;
  std::map<std::string, int64_t> others;  // key: state, or "not submitted"
};

/// Finds the jobs of `sweep_of` by their ids. `runs` is the agents' run root as seen by this machine. Throws
/// jobs::JobsError if a successful job has no rankings.csv there.
Collection collect(const Experiment& experiment, const std::vector<Trial>& trials, const jobs::Sweep& sweep,
                   jobs::QueueReader& reader, const std::filesystem::path& runs);

/// Describes the files that exist of a trial.
struct TrialState {
  bool complete = false;
  bool stale = false;    // made with other settings or data; must be made again
  bool trained = false;  // trained as wanted, but other test groups were evaluated: only these are missing
  double seconds = 0;
  std::string key, training;
};
/// Finds out which trials exist.
class TrialStates {
 public:
  /// Returns the state of a trial's folder. Throws configs::SettingsError if it holds a trial with other settings or
  /// data, unless `overwrite` is set, and data::DataError if the data cannot be listed.
  TrialState find(const ExperimentEntry& entry, const Trial& trial, bool overwrite);

 private:
  coordinator::DataFingerprints fingerprints(const configs::Settings& settings);

  std::map<std::string, coordinator::DataFingerprints> fingerprints_;  // key: settings that choose the data
};

/// Runs the incomplete trials one after another, each on all ranks; an interrupted trial continues. All ranks call it.
/// Returns false if pre-empted.
bool run_trials(const Experiment& experiment, const std::vector<Trial>& trials, bool overwrite,
                comm::Communicator& comm);

}  // namespace foretime::experiments
