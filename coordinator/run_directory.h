#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>
#include <spdlog/logger.h>

#include "configs/settings.h"
#include "coordinator/checkpoint_store.h"

namespace foretime::coordinator {

/// Holds hashes of a run's data set (sharding::DatasetIndex).
struct DataFingerprints {
  uint64_t all = 0, training = 0;  // hash of all groups; hash of the groups of training and validation
};

/// Throws configs::SettingsError if `folder` holds files that a run would replace, append to or remove, and is not the
/// folder of a run, which the first line of config.yaml marks. A missing folder is allowed. Throws as open_foreign.
void require_run_or_empty_folder(const std::filesystem::path& folder);

/// Manages the folder of a run on rank 0: config.yaml, environment.json, data.json, metrics.jsonl, rankings.csv,
/// log.txt, checkpoints/.
class RunDirectory {
 public:
  /// Opens or creates the folder settings.run.directory. If it holds a run, throws configs::SettingsError if the
  /// configuration of that run differs from `settings` (config_differences), and RunError if its training or validation
  /// groups differ; test groups may differ. But with run.overwrite, or if that run has no checkpoint, the old run's
  /// files are removed instead. Throws configs::SettingsError as require_run_or_empty_folder does.
  RunDirectory(const configs::Settings& settings, DataFingerprints data);

  const std::filesystem::path& path() const { return path_; }
  /// Returns whether the constructor removed the files of a run without a checkpoint.
  bool restarts_empty_run() const { return restarts_empty_run_; }
  CheckpointStore& checkpoints() { return checkpoints_; }
  /// Appends one line to metrics.jsonl. Throws FileError, also if the file was removed since the last line.
  void append_metrics(const nlohmann::json& line);
  /// Returns when all lines of metrics.jsonl are on disk. Must be called before a checkpoint is written, since a run
  /// that resumes from it does not write these lines again.
  void sync_metrics();
  /// Removes the lines of metrics.jsonl whose step is larger than `step`, and lines that are no JSON objects or
  /// whose step is no number. A line without a step is kept.
  void rewind_metrics(int64_t step);
  /// Writes the file `name` of the folder atomically.
  void write(const std::string& name, const std::string& text);

 private:
  std::filesystem::path path_;
  CheckpointStore checkpoints_;
  bool restarts_empty_run_ = false;
  bool has_metrics_ = false;  // lines were appended, so metrics.jsonl must exist

  /// Returns the size of metrics.jsonl in bytes; 0 if it never existed. Throws FileError if it has been removed.
  uint64_t size_of_metrics() const;
};

/// Returns the keys in which two configurations differ, each as a line break and "  model.layers: 3 -> 2" ("unused" for
/// a key that one of them does not read); "" if there are none. Keys that do not change the computation of a step are
/// ignored: trainer.steps, epochs, eval_every, log_every, threads, device, deterministic, eval_states and baselines;
/// data.test, allowed_roots and overlap; all of checkpoint, run and comm but comm.gradient_dtype.
std::string config_differences(const configs::Settings& before, const configs::Settings& now);

/// Returns the content of environment.json: the arguments (`threads` of each rank), and cores, host name, kernel, and
/// the versions of LibTorch and the compiler.
nlohmann::json describe_environment(int ranks, int threads, const std::string& communicator, const std::string& device);

/// Holds the resources that a training run used, as stored in resources.json of its directory.
struct RunResources {
  double seconds = 0;     // wall time, summed over all attempts of the run in this directory
  double memory = 0;      // MiB, peak resident memory of rank 0's process, largest of all attempts
  double all_memory = 0;  // MiB, sum over ranks of the peak resident memory, largest of all attempts
};

/// Measures wall time and the peak resident memory of this process (VmHWM) from the construction on. If the kernel does
/// not allow a reset of the peak (/proc/self/clear_refs), the peak is that since the process began.
class ResourceMeter {
 public:
  ResourceMeter();
  /// Returns the wall time in seconds since the construction.
  double seconds() const;
  /// Returns the peak resident memory in MiB; 0 without /proc.
  double peak_memory() const;

 private:
  std::chrono::steady_clock::time_point start_;
};

/// Writes `folder`/resources.json.
void write_run_resources(const std::filesystem::path& folder, const RunResources& resources);
/// Reads `folder`/resources.json; nullopt if it is missing or damaged. Throws the errors of read_foreign.
std::optional<RunResources> read_run_resources(const std::filesystem::path& folder);

}  // namespace foretime::coordinator
