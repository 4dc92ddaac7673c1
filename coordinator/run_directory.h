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

/// Holds hashes of all groups of a run, and of the groups that it trains and validates on (sharding::DatasetIndex).
struct DataFingerprints {
  uint64_t all = 0, training = 0;
};

/// Throws configs::SettingsError if a folder that is not a run of Foretime holds files that a run would replace, append
/// to or remove. The first line of a run's config.yaml marks its folder.
void require_run_or_empty_folder(const std::filesystem::path& folder);

/// Manages rank 0's folder for a run: config.yaml, environment.json, data.json, metrics.jsonl, rankings.csv, log.txt,
/// checkpoints/.
class RunDirectory {
 public:
  /// Opens or creates the folder. If it holds a run, that run's configuration must agree with `settings` in everything
  /// that determines the result (see config_differences), and its training and validation groups must be equal.
  /// Exceptions are run.overwrite, which empties the folder, and a run without a checkpoint (`restarts_empty_run`).
  /// Test groups may differ, since a continued run measures them. Throws configs::SettingsError, RunError.
  RunDirectory(const configs::Settings& settings, DataFingerprints data);

  const std::filesystem::path& path() const { return path_; }
  /// Returns whether the folder held a run without a checkpoint, whose files were removed.
  bool restarts_empty_run() const { return restarts_empty_run_; }
  CheckpointStore& checkpoints() { return checkpoints_; }
  /// Appends one line to metrics.jsonl.
  void append_metrics(const nlohmann::json& line);
  /// Returns when all lines are on disk. Must precede a checkpoint, after which a resumed run does not write them
  /// again.
  void sync_metrics();
  /// Removes lines of metrics.jsonl after `step`, which a killed run may have left behind.
  void rewind_metrics(int64_t step);
  /// Writes a file of the folder atomically.
  void write(const std::string& name, const std::string& text);

 private:
  std::filesystem::path path_;
  CheckpointStore checkpoints_;
  bool restarts_empty_run_ = false;
  bool has_metrics_ = false;  // lines were appended, so a missing file has been removed by somebody

  /// Returns the size of metrics.jsonl; 0 if it was not begun. Throws StorageError if it has been removed.
  uint64_t size_of_metrics() const;
};

/// Returns the keys in which two configurations differ, one "model.layers: 3 -> 2" a line ("unused" for a key that one
/// of them does not read). Keys that do not change the computation of a step are ignored: trainer.steps, epochs,
/// eval_every, log_every, threads, device, deterministic and eval_states; data.test, allowed_roots and overlap; all of
/// checkpoint, run and comm but comm.gradient_dtype.
std::string config_differences(const configs::Settings& before, const configs::Settings& now);

/// Returns the content of environment.json: ranks, threads of each rank, cores, communicator, device, host, kernel, and
/// the versions of LibTorch and the compiler.
nlohmann::json describe_environment(int ranks, int threads, const std::string& communicator, const std::string& device);

/// Holds the resources that a training run used, as stored in resources.json of its directory.
struct RunResources {
  double seconds = 0;     // wall time, including earlier attempts of the run in this directory
  double memory = 0;      // MiB, peak resident memory of rank 0's process
  double all_memory = 0;  // MiB, sum of all ranks' peaks
};

/// Measures this process from the construction on: wall time, and the peak of its resident memory (VmHWM), which begins
/// at the current value. If the kernel does not allow a reset (/proc/self/clear_refs), it is the peak since the process
/// began, which is the same for a process that trains once.
class ResourceMeter {
 public:
  ResourceMeter();
  /// Returns the wall time in seconds since the construction.
  double seconds() const;
  /// Returns the peak in MiB; 0 without /proc.
  double peak_memory() const;

 private:
  std::chrono::steady_clock::time_point start_;
};

/// Writes `folder`/resources.json.
void write_run_resources(const std::filesystem::path& folder, const RunResources& resources);
/// Reads `folder`/resources.json; nullopt if it is missing or damaged.
std::optional<RunResources> read_run_resources(const std::filesystem::path& folder);

}  // namespace foretime::coordinator
