#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/document.h"
#include "jobs/queue/queue_reader.h"
#include "jobs/sweep/sweep.h"

namespace foretime::experiments {

/// What one fold trains on and tests: files, relative to data.root where they lie below it.
struct Fold {
  std::vector<std::string> train, test;
};

/// The experiment's folds, by its FoldRule over the groups sorted by name; empty where it has none. Reads headers.
/// Throws data::DataError where groups lie in packed collections, share a name, or are fewer than folds.
std::vector<Fold> make_folds(const Experiment& experiment);

/// Makes a trial's settings those of a fold: its files, no validation groups, nothing held out. Without either the last
/// step's model counts, and trainer.metric becomes that of the test set, which chooses nothing. Throws ExperimentError
/// where early stopping asks for more.
void apply_fold(const Fold& fold, configs::Settings& settings, const std::string& origin);

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

/// A trial that is complete has trial.json beside its rankings.csv, written last.
struct TrialRecord {
  std::string key;     // content id of trial_key and of the data's fingerprint
  double seconds = 0;  // that it took, without earlier attempts
};
/// Empty where there is none, or a damaged one.
std::optional<TrialRecord> read_trial_record(const std::filesystem::path& folder);
void write_trial_record(const std::filesystem::path& folder, const TrialRecord& record);
std::string record_key(const ExperimentEntry& entry, const configs::Settings& settings, uint64_t data_fingerprint);

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

}  // namespace foretime::experiments
