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

/// Describes one run of an experiment: an entry with a share of the training data, a seed and, if used, a fold.
struct Trial {
  size_t entry = 0;     // index in Experiment::entries
  double fraction = 1;  // share of the training candidates
  uint64_t seed = 1;
  configs::Settings settings;    // settings of `foretime train`; others than models take candidates and seed
  std::filesystem::path folder;  // OUT/trials/SLUG/fraction-F/seed-S, with folds …/fold-N
  int64_t fold = -1;             // number of the fold, from 0; -1: no folds
};

/// Returns all trials, with folders below `out`, by seed, decreasing share, entry and fold. Reads headers if there are
/// folds. Throws ExperimentError if settings contradict each other or entries would be evaluated on different
/// candidates; DataError if folds have too few groups, packed groups, or two groups of one name.
std::vector<Trial> trials_of(const Experiment& experiment, const std::filesystem::path& out);

/// Returns a text such as "GCN, 25 % of the training data, seed 2, fold 0".
std::string describe(const Experiment& experiment, const Trial& trial);

/// Returns all that a trial's predictions depend on except the contents of files, as text: kind and parameters of its
/// entry, and all settings except those about where and how fast it runs. An entry that is no model also leaves out the
/// settings of models and their training.
std::string trial_key(const ExperimentEntry& entry, const configs::Settings& settings);

/// Returns the text of trial_key without test groups and feature files of boosted trees, which are always trained.
std::string training_key(const ExperimentEntry& entry, const configs::Settings& settings);

/// Holds the content of trial.json, which is written last into the folder of a complete trial, next to its
/// rankings.csv.
struct TrialRecord {
  std::string key;       // record_key of the trial
  std::string training;  // training_record_key of the trial
  double seconds = 0;    // duration of the last attempt
};
/// Reads trial.json; nullopt if it or rankings.csv is missing, or it is damaged. Throws the errors of read_foreign.
std::optional<TrialRecord> read_trial_record(const std::filesystem::path& folder);
void write_trial_record(const std::filesystem::path& folder, const TrialRecord& record);
/// Returns TrialRecord::key: the content id of trial_key and of the fingerprint of all groups.
std::string record_key(const ExperimentEntry& entry, const configs::Settings& settings, uint64_t data_fingerprint);
/// Returns TrialRecord::training: the content id of training_key and of the fingerprint without test groups.
std::string training_record_key(const ExperimentEntry& entry, const configs::Settings& settings,
                                uint64_t training_fingerprint);

/// Returns the trials of entries of kind model as jobs of one sweep, in the order of the trials, with `resources` and
/// names EXPERIMENT/SLUG/fraction-F/seed-S[/fold-N]. Throws ExperimentError if there is none, or the trials cannot be
/// compared by trainer.metric (configs::find_metric_conflict).
jobs::Sweep sweep_of(const Experiment& experiment, const std::vector<Trial>& trials, const jobs::Resources& resources,
                     int64_t priority);

/// Describes a trial of kind model that succeeded as a job.
struct CollectedTrial {
  size_t trial = 0;              // index in the list of trials
  std::filesystem::path folder;  // folder of the successful attempt, with its rankings.csv
  double seconds = 0;            // duration of the job
};
/// Holds the trials whose jobs succeeded, and counts the other trials of kind model.
struct Collection {
  std::vector<CollectedTrial> trials;
  std::map<std::string, int64_t> others;  // key: state of the job, "not submitted" or "unreadable"
};

/// Finds the jobs of `sweep`, made by sweep_of for these trials, in a queue. `runs` is the run root of the agents as
/// seen by this machine. Throws jobs::JobsError if a successful job has no rankings.csv there, and the reader's errors.
Collection collect(const Experiment& experiment, const std::vector<Trial>& trials, const jobs::Sweep& sweep,
                   jobs::QueueReader& reader, const std::filesystem::path& runs);

/// Describes what exists of a trial in its folder.
struct TrialState {
  bool complete = false;      // nothing is left to do
  bool stale = false;         // made with other settings or data; must be made again
  bool trained = false;       // trained as wanted, but evaluated on other test groups; must be evaluated again
  double seconds = 0;         // duration of the last attempt of a complete trial; else 0
  std::string key, training;  // see the TrialRecord of the complete trial
};
/// Finds out which trials exist. Fingerprints of data are computed once for equal settings.
class TrialStates {
 public:
  /// Returns the state of a trial of `entry`. Throws configs::SettingsError if the trial's folder holds a trial with
  /// other settings or data, unless `overwrite` is set; DataError if the data cannot be listed.
  TrialState find(const ExperimentEntry& entry, const Trial& trial, bool overwrite);

 private:
  coordinator::DataFingerprints fingerprints(const configs::Settings& settings);

  std::map<std::string, coordinator::DataFingerprints> fingerprints_;  // key: settings that choose the data
};

/// Runs the incomplete trials one after another: models on all ranks, other entries on rank 0. An interrupted training
/// continues. All ranks call it. Returns false if a training was pre-empted. Throws as TrialStates::find,
/// coordinator::RunLock and worker::train_model do.
bool run_trials(const Experiment& experiment, const std::vector<Trial>& trials, bool overwrite,
                comm::Communicator& comm);

}  // namespace foretime::experiments
