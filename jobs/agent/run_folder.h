#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

/// Reads and copies the files that a training has left in its run directory.
namespace foretime::jobs {

/// Holds the last line of metrics.jsonl of kind `final`. Non-finite metrics are NaN; other values are dropped.
struct FinalMetrics {
  int64_t step = 0;
  std::map<std::string, double> metrics{};
};
/// Returns the final metrics; empty if metrics.jsonl has no line of kind `final`. With `of_program`, every number
/// except the step is a metric; otherwise only entries named SET/METRIC. Throws FileError.
std::optional<FinalMetrics> read_final_metrics(const std::filesystem::path& run, bool of_program);

/// Returns what is damaged in a checkpoint's folder: the manifest is missing or invalid, or a file is missing or has
/// another size than the manifest lists. Returns "" if nothing is; checksums are not read. Throws StorageError.
std::string checkpoint_damage(const std::filesystem::path& folder);

/// Returns the newest checkpoint in `checkpoints` without checkpoint_damage(); empty without one. Throws FileError.
std::filesystem::path newest_whole_checkpoint(const std::filesystem::path& checkpoints);

/// Copies checkpoints of another run, which may be removed, into the run directory `run`, which has none: `checkpoint`
/// under its name, and the best checkpoint with best.json if that is whole. Also copies data.json if `run`
/// has none. Each appears whole or not at all, also after a loss of power. Files are hard-linked if the file system
/// allows it, otherwise copied. Returns false if `checkpoint` is damaged or disappears meanwhile. Throws FileError if a
/// copy cannot be written and StorageError if a file cannot be read.
bool keep_checkpoints(const std::filesystem::path& checkpoint, const std::filesystem::path& run);

}  // namespace foretime::jobs
