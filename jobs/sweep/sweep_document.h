#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "configs/settings.h"
#include "configs/yaml_reader.h"
#include "jobs/queue/queue.h"
#include "jobs/sweep/program_trial.h"
#include "jobs/sweep/search_space.h"

namespace foretime::jobs {

/// Describes a job that follows each trial.
struct FollowUp {
  JobKind kind = JobKind::evaluate;
  std::string settings;  // JobSpec::settings
};

/// Holds a sweep file as read, before it is expanded into jobs.
struct SweepDocument {
  std::string origin, name, method, metric;
  bool maximize = false;
  SearchSpace space;
  std::map<std::string, std::string> places;  // key in `space` -> its place (FILE:LINE)
  std::optional<int64_t> run_cap;             // most configurations, before `seeds` repeat them; empty: no limit
  uint64_t seed = 1;                          // seed of the search
  std::vector<uint64_t> seeds;                // trainer.seed of each repetition of a trial; empty: no repetitions
  HalvingRule halving;
  std::optional<ProgramTrial> program;  // a user's program that replaces foretime train; `base` is then unused
  configs::Settings base;               // settings of all trials, from the settings file, overrides and metric
  std::vector<FollowUp> then;           // jobs that follow each trial, in order
  Resources resources;
  int64_t priority = 0;
  int64_t max_attempts = 3;
  std::vector<std::string> warnings;
};

/// Parses the text of a sweep file; arguments are those of parse_sweep. Throws as plan_sweep() does.
SweepDocument read_document(const std::string& yaml, const std::string& origin, const std::filesystem::path& folder,
                            const std::vector<std::string>& overrides);

/// Returns the rungs of W&B's `hyperband` with min_iter, in evaluations: the whole parts of min_iter eta^k for k = 0,
/// 1, …, without repetitions, at most 64 rungs and up to 1e9. Throws SweepError unless min_iter >= 1, eta > 1.
HalvingRule halving_from_min(int64_t min_iter, double eta);
/// Returns the rungs of W&B's `hyperband` with max_iter and s (`brackets`): the whole parts of max_iter / eta^k for k =
/// brackets … 1 that are at least 1, without repetitions. Throws SweepError unless max_iter, brackets >= 1, eta > 1 and
/// a rung is left.
HalvingRule halving_from_max(int64_t max_iter, int64_t brackets, double eta);

/// Sets how keys of `parameters` are read.
struct ParameterNames {
  bool of_program = false;  // true: any key and value is allowed; false: keys must be settings of foretime train
  std::map<std::string, std::string> rename;  // key in the file -> name of the setting; "": the parameter is skipped
};
/// Collects facts about `parameters`.
struct ParameterNotes {
  std::map<std::string, std::string> places;                         // key of a parameter -> its place (FILE:LINE)
  std::vector<std::string> nested;                                   // keys whose entries have nested `parameters`
  std::vector<std::string> renamed;                                  // keys of ParameterNames::rename that were found
  std::vector<std::pair<configs::YamlEntry, std::string>> warnings;  // entry of a parameter, and what is doubtful in it
};

/// Returns the search space of the map `parameters`, with nested `parameters` flattened to full keys, sorted by key.
/// Unless `names.of_program`, each key must be a setting, and an integer setting must not have a continuous
/// distribution. Does not check values against bounds. Fills `notes` unless null. Throws configs::SettingsError.
SearchSpace read_parameters(const configs::YamlEntry& parameters, const std::string& origin,
                            ParameterNotes* notes = nullptr, const ParameterNames& names = {});

}  // namespace foretime::jobs
