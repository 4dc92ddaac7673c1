#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "configs/settings.h"
#include "jobs/queue/queue.h"
#include "jobs/sweep/search_space.h"
#include "jobs/sweep/submission.h"

namespace foretime::jobs {

/// Resets the settings that the agent chooses to their defaults (`run` and data.allowed_roots). Sets
/// checkpoint.every_steps to trainer.eval_every if it is 0, since retries need checkpoints.
void prepare_for_queue(configs::Settings& settings);

/// Holds a sweep file and its jobs. docs/reference/sweep-files.md has the grammar. With `program` or `command` and
/// without `settings`, trials run that program (jobs/sweep/program_trial.h).
struct Sweep {
  SweepSpec spec;
  SearchSpace space;
  std::vector<JobSpec> jobs;          // trials in order, each followed by the jobs of `then`; ids are set
  std::vector<std::string> warnings;  // messages about keys without an effect (project, entity, …) and doubtful values
};

/// Holds a sweep whose jobs are made one at a time, so that a hundred thousand jobs take no more memory than one.
struct SweepPlan {
  using Take = std::function<void(JobSpec&&)>;
  Sweep sweep;        // lacks `jobs`
  int64_t count = 0;  // number of jobs
  /// Makes all jobs and passes each to Take, in the order of Sweep::jobs. May be called more than once.
  std::function<void(const Take&)> each_job;
};

/// Expands a sweep file into at most 100,000 jobs, all checked. `overrides` are key=value: run_cap, name,
/// seed, seeds, settings (relative to the working folder), program, metric.name, metric.goal, priority and max_attempts
/// replace the file's values; every other key, with or without `set.` before it, is a setting of every trial.
///
/// Each trial's settings are resolved and checked like those of configs::load_settings (bounds, contradictions, unknown
/// keys with the nearest known one); deferred (bayes) trials are checked at each bound and each value of each
/// parameter. The sweep's id covers everything that shapes its trials, but not name, priority, resources, attempts and
/// run.directory. Throws StorageError, and SweepError or configs::SettingsError with file, line or override, and key.
SweepPlan plan_sweep(const SweepFile& file, const std::vector<std::string>& overrides = {});
/// Reads and expands the text of a sweep file as plan_sweep() does, and returns all jobs at once. `origin` names the
/// file in messages; the path in `settings` is relative to `folder`.
Sweep parse_sweep(const std::string& yaml, const std::string& origin, const std::filesystem::path& folder,
                  const std::vector<std::string>& overrides = {});
/// Returns a training job with the settings of a file, changed by `overrides` (key=value) and prepare_for_queue(). An
/// empty `name` means the file's name. Throws configs::SettingsError and SweepError.
JobSpec training_job(const TrainingFile& file, const std::vector<std::string>& overrides, const std::string& name);

/// Returns why trials with these settings must not change their number of ranks between attempts; empty if they may.
std::string elastic_conflict(const configs::Settings& settings);

/// Returns why a training must not have this number of GPUs for each rank (more than one); empty if it may.
std::string gpus_conflict(const Resources& resources);

/// Returns the checked settings of `spec`, changed by `parameters` and prepare_for_queue(). Throws
/// configs::SettingsError.
configs::Settings trial_settings(const JobSpec& spec, const Parameters& parameters);

/// Returns the settings of a job, as text. For a training: all settings as YAML, with the job's parameters applied to
/// those of its sweep (trial_settings). For a trial of a user's program: JSON whose key `parameters` has the values
/// that the program receives. For other jobs: the submitted text. If the parameters of a trial are not decided yet, the
/// first line is a comment that states it. Throws configs::SettingsError or JobsError for damaged settings.
std::string resolved_settings(const JobSpec& spec);

}  // namespace foretime::jobs
