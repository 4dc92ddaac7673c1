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
  std::map<std::string, std::string> places;  // position in the file of each key in space
  std::optional<int64_t> run_cap;
  uint64_t seed = 1;
  std::vector<uint64_t> seeds;  // trainer.seed of each repetition of a trial; empty: no repetitions
  HalvingRule halving;
  std::optional<ProgramTrial> program;  // a user's program that replaces foretime train; `base` is then unused
  configs::Settings base;               // settings file, overrides and metric
  std::vector<FollowUp> then;
  Resources resources;
  int64_t priority = 0;
  int64_t max_attempts = 3;
  std::vector<std::string> warnings;
};

/// Parses a sweep file. `overrides` are described at plan_sweep. Throws SweepError and configs::SettingsError.
SweepDocument read_document(const std::string& yaml, const std::string& origin, const std::filesystem::path& folder,
                            const std::vector<std::string>& overrides);

/// Sets how keys of `parameters` are read.
struct ParameterNames {
  bool of_program = false;  // any key and value is allowed; otherwise keys are settings
  std::map<std::string, std::string>
      rename;  // key of the file -> name of the setting; an empty name skips the parameter
};
/// Collects facts about `parameters` for messages.
struct ParameterNotes {
  std::map<std::string, std::string> places;                         // position in the file of each key
  std::vector<std::string> nested;                                   // keys that have `parameters`
  std::vector<std::string> renamed;                                  // keys of `rename` that were found
  std::vector<std::pair<configs::YamlEntry, std::string>> warnings;  // about parameters
};

/// Returns the search space of `parameters`, with nested `parameters` flattened to full keys, sorted. Unless
/// `names.of_program`, each key must be a setting, and a continuous distribution may not be used for an integer
/// setting. Throws SweepError. Values are checked against the settings' bounds elsewhere. Fills `notes` unless null.
SearchSpace read_parameters(const configs::YamlEntry& parameters, const std::string& origin,
                            ParameterNotes* notes = nullptr, const ParameterNames& names = {});

}  // namespace foretime::jobs
