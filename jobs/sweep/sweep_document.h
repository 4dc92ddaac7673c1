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

/// A job that follows each trial.
struct FollowUp {
  JobKind kind = JobKind::evaluate;
  std::string settings;  // as in JobSpec
};

/// A sweep file as read, before it is expanded into jobs.
struct SweepDocument {
  std::string origin, name, method, metric;
  bool maximize = false;
  SearchSpace space;
  std::map<std::string, std::string> places;  // of the keys in space
  std::optional<int64_t> run_cap;
  uint64_t seed = 1;
  std::vector<uint64_t> seeds;  // trainer.seed of the repetitions of each trial; empty: not repeated
  HalvingRule halving;
  std::optional<ProgramTrial> program;  // of the user's own, in place of foretime train; then `base` has no meaning
  configs::Settings base;               // settings file, overrides and metric
  std::vector<FollowUp> then;
  Resources resources;
  int64_t priority = 0;
  int64_t max_attempts = 3;
  std::vector<std::string> warnings;
};

/// Throws SweepError and configs::SettingsError. `overrides` as in plan_sweep.
SweepDocument read_document(const std::string& yaml, const std::string& origin, const std::filesystem::path& folder,
                            const std::vector<std::string>& overrides);

/// How keys of `parameters` are read.
struct ParameterNames {
  bool of_program = false;                    // any name and any value; else settings
  std::map<std::string, std::string> rename;  // key of the file -> ours; empty: the parameter is left out
};
struct ParameterNotes {
  std::map<std::string, std::string> places;                         // of each key
  std::vector<std::string> nested;                                   // keys that have `parameters`
  std::vector<std::string> renamed;                                  // keys of `rename` that were found
  std::vector<std::pair<configs::YamlEntry, std::string>> warnings;  // about parameters
};

/// The search space of `parameters`, with nested `parameters` flattened to full keys, sorted. Each key must be a
/// setting, and a continuous distribution may not be used for one that takes integers; not so for a program's. Throws
/// SweepError. Values are checked against the settings' bounds elsewhere. `notes`, where given, is filled.
SearchSpace read_parameters(const configs::YamlEntry& parameters, const std::string& origin,
                            ParameterNotes* notes = nullptr, const ParameterNames& names = {});

}  // namespace foretime::jobs
