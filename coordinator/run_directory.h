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

/// Of all groups of a run, and of those that it trains and validates on (sharding::DatasetIndex).
struct DataFingerprints {
  uint64_t all = 0, training = 0;
};

/// Throws configs::SettingsError where a folder that is no run of Foretime holds files that a run would replace, append
/// to or remove. The first line of a run's config.yaml marks its folder.
void expect_run_or_room(const std::filesystem::path& folder);

/// Rank 0's folder for a run: config.yaml, environment.json, data.json, metrics.jsonl, rankings.csv, log.txt,
/// checkpoints/.
class RunDirectory {
 public:
  /// Opens or creates the folder. Where it holds a run already, its configuration must agree with `settings` in all
  /// that shapes the result (see config_differences), and its training and validation groups must be the same, unless
  /// run.overwrite is set, which empties the folder, or the run in it has no checkpoint (`begins_again`). Test groups
  /// may be others: a run that continues measures them.
  /// Throws configs::SettingsError, RunError.
  RunDirectory(const configs::Settings& settings, DataFingerprints data);

  const std::filesystem::path& path() const { return path_; }
  /// Whether the folder held a run without a checkpoint, whose files are gone.
  bool begins_again() const { return begins_again_; }
  CheckpointStore& checkpoints() { return checkpoints_; }
  /// Appends one line to metrics.jsonl.
  void append_metrics(const nlohmann::json& line);
  /// Returns when all lines are on disk: before a checkpoint, after which a resumed run does not write them again.
  void sync_metrics();
  /// Drops lines of metrics.jsonl that are newer than `step`, which a killed run may have left behind.
  void rewind_metrics(int64_t step);
  void write(const std::string& name, const std::string& text);

 private:
  std::filesystem::path path_;
  CheckpointStore checkpoints_;
  bool begins_again_ = false;
  bool has_metrics_ = false;  // lines were appended: a file that is not there has been removed by somebody

  /// 0 for a file that was not begun. Throws StorageError for one that has gone.
  uint64_t size_of_metrics() const;
};

/// Full keys in which two configurations differ, "model.layers: 3 -> 2" one a line ("unused" for a key that one of the
/// two does not read), but for those that do not change what a step
/// computes: trainer.steps, epochs, eval_every, log_every, threads, device, deterministic and eval_states;
/// data.test, allowed_roots and overlap; all of checkpoint, comm and run but comm.gradient_dtype.
std::string config_differences(const configs::Settings& before, const configs::Settings& now);

/// Versions, host, ranks and threads: what one needs to know to repeat a run.
nlohmann::json describe_environment(int ranks, int threads, const std::string& communicator, const std::string& device);

/// Adds a line to the file of a logger that make_logger has made with a file, and to no terminal.
void log_to_file(const spdlog::logger& log, const std::string& text);

/// Prints to the terminal (stderr) and, where `file` is not empty, to that file. `level` names the least severe message
/// that is shown. Throws FileError, or StorageError where the storage failed.
std::shared_ptr<spdlog::logger> make_logger(const std::filesystem::path& file, spdlog::level::level_enum level);

/// What a training run took, as resources.json in its directory says it.
struct RunResources {
  double seconds = 0;     // wall time, with that of the attempts that it continued in the same directory
  double memory = 0;      // MiB: peak resident memory of rank 0's process
  double all_memory = 0;  // MiB: the sum of all ranks' peaks
};

/// Measures this process from its construction on: wall time, and the peak of its resident memory (VmHWM), which begins
/// at what is resident then. Where the kernel does not allow that (/proc/self/clear_refs), it is the peak since the
/// process began: a process that trains once does not notice.
class ResourceMeter {
 public:
  ResourceMeter();
  double seconds() const;
  /// MiB; 0 where there is no /proc.
  double peak_memory() const;

 private:
  std::chrono::steady_clock::time_point start_;
};

/// Writes `folder`/resources.json.
void write_run_resources(const std::filesystem::path& folder, const RunResources& resources);
/// Empty where there is none, or a damaged one.
std::optional<RunResources> read_run_resources(const std::filesystem::path& folder);

}  // namespace foretime::coordinator
