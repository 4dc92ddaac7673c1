#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "configs/settings.h"
#include "configs/yaml_reader.h"
#include "jobs/queue/queue.h"
#include "jobs/sweep/search_space.h"

namespace foretime::jobs {

/// A setting that a sweep file or its command line sets for every trial.
struct SettingOverride {
  std::string key, value;    // as configs::apply_override takes them
  configs::YamlEntry entry;  // for messages
};

/// The leaves of a map of settings, nested or with dotted keys; their values as `text` writes them.
std::vector<SettingOverride> flatten_overrides(
    const configs::YamlEntry& map, const std::string& origin,
    const std::function<std::string(const configs::YamlEntry&)>& text = configs::override_text);
/// Throws SweepError, with the place in the sweep, where one is unknown, malformed or out of bounds by itself.
void check_overrides(const std::vector<SettingOverride>& overrides);

/// What a job's settings do not say: the agent chooses the run's folder and the folders that may be read, so `run` and
/// data.allowed_roots are put back to their defaults. And what retries need: where checkpoint.every_steps is 0 and
/// trainer.eval_every is not, there is a checkpoint at every evaluation.
void prepare_for_queue(configs::Settings& settings);

/// A sweep file: W&B's grammar (method, metric, parameters, run_cap, early_terminate, name, description) with a few
/// keys of our own: `settings` (the YAML file of `foretime train` that is swept, relative to the sweep file),
/// `overrides` (a map of settings), `seed` (of the search), `seeds` (a number or list: every trial once for each
/// trainer.seed), `then` (list of evaluate and export: jobs that follow each trial, or a map with their options),
/// `resources` {ranks, cpus, gpus}, `priority`, `max_attempts`, `rename`. With `program` or `command` and without
/// `settings` trials run that program (jobs/sweep/program_trial.h). docs/reference/sweep-files.md has the whole
/// grammar.
struct Sweep {
  SweepSpec spec;
  SearchSpace space;
  std::vector<JobSpec> jobs;          // trials in order, each followed by what depends on it; ids are set
  std::vector<std::string> warnings;  // keys that were accepted and have no meaning here: project, entity…
};

/// A sweep whose jobs are made one after the other, so that a hundred thousand take no more memory than one.
struct SweepPlan {
  using Take = std::function<void(JobSpec&&)>;
  Sweep sweep;  // without jobs
  int64_t count = 0;
  std::function<void(const Take&)> each_job;  // may be called more than once
};

/// Reads and expands a sweep. `overrides` are key=value: run_cap, name, seed, seeds, settings (relative to the working
/// folder), program, metric.name, metric.goal, priority and max_attempts stand for the file's, every other key, with or
/// without `set.` before it, is a setting of every trial. Each trial's settings are resolved and checked as
/// configs::load_settings does (bounds, contradictions, unknown keys with the nearest known one); deferred (bayes)
/// trials are checked at each bound and each value of each parameter. The id of the sweep is that of everything that
/// shapes its trials: not its name, priority, resources, attempts or run.directory. At most 100,000 jobs, all checked
/// before the sweep is returned. Throws SweepError or configs::SettingsError with file, line (or override), key and
/// value.
SweepPlan plan_sweep(const std::filesystem::path& file, const std::vector<std::string>& overrides = {});
/// As plan_sweep does, of a text, with all jobs.
Sweep parse_sweep(const std::string& yaml, const std::string& origin, const std::filesystem::path& folder,
                  const std::vector<std::string>& overrides = {});
/// Whether a YAML file has one of `keys` at top level; false where it cannot be read.
bool has_key(const std::filesystem::path& file, const std::vector<std::string>& keys);
/// Whether a YAML file is a sweep (has `method` or `parameters` at top level) rather than settings of `foretime train`;
/// false where it cannot be read.
bool is_sweep_file(const std::filesystem::path& file);
/// One training job from a settings file; `name` empty: the file's. As in a sweep, run.directory is left to the agent,
/// and checkpoint.every_steps is trainer.eval_every where it is 0, so that a retry has something to continue from.
JobSpec single_job(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                   const std::string& name);

/// The rungs of W&B's `hyperband`, in evaluations: the whole parts of min_iter eta^k for min_iter (k = 0, 1, …, at most
/// 64 of them), of max_iter / eta^k (k = s … 1, those of at least 1) for max_iter and s. Throws SweepError: min_iter,
/// max_iter or s below 1, eta not above 1, no rung left.
HalvingRule halving_from_min(int64_t min_iter, double eta);
HalvingRule halving_from_max(int64_t max_iter, int64_t brackets, double eta);

/// Why trials of these settings must not run on one number of ranks now and on another later; empty where they may.
std::string elastic_conflict(const configs::Settings& settings);

/// Why ranks of a training must not ask for so many GPUs each; empty where they may.
std::string gpus_conflict(const Resources& resources);

/// The settings a trial runs with: `settings` YAML with `parameters` laid over, checked. Throws configs::SettingsError.
configs::Settings trial_settings(const JobSpec& spec, const Parameters& parameters);

/// Returns the settings that a job runs with, as text. For a training: all settings as YAML, with the job's parameters
/// laid over those of its sweep (trial_settings). For a trial of a user's program: JSON with the values that the
/// program receives as `parameters`. For other jobs: the text that was submitted. Where the search has not chosen a
/// trial's parameters yet, a comment in the first line says so. Throws configs::SettingsError or JobsError for damaged
/// settings.
std::string resolved_settings(const JobSpec& spec);

}  // namespace foretime::jobs
