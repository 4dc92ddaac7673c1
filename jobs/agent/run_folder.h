#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

/// Reads and copies the files that a training has left in its run directory.
namespace foretime::jobs {

/// Holds the last line of metrics.jsonl of kind `final`. Metrics that are not numbers are dropped; non-finite ones are
/// NaN.
struct FinalMetrics {
  int64_t step = 0;
  std::map<std::string, double> metrics{};
};
/// Returns the final metrics; empty if the run has not ended. With `of_program`, every number except the step is a
/// metric; otherwise only entries named SET/METRIC. Throws FileError.
std::optional<FinalMetrics> read_final_metrics(const std::filesystem::path& run, bool of_program);

/// Returns the damage of a checkpoint's folder, judged by its manifest and the sizes of its files; an empty text for
/// none. Throws StorageError.
std::string checkpoint_damage(const std::filesystem::path& folder);

/// Returns the newest checkpoint below `checkpoints` in which checkpoint_damage() finds nothing; empty if there is
/// none. Throws FileError.
std::filesystem::path newest_whole_checkpoint(const std::filesystem::path& checkpoints);

/// Copies checkpoints of another run, which may be removed, into a run directory without any: `checkpoint` under its
/// name, the best one with its marker if it is another one and whole, and the description of the data if `run` has
/// none. Each appears whole or not at all, also after a loss of power. Files are hard-linked if the file system allows
/// it, otherwise copied. Returns false if the checkpoint is damaged or disappears meanwhile. Throws FileError if a copy
/// cannot be written and StorageError if a file cannot be read.
bool keep_checkpoints(const std::filesystem::path& checkpoint, const std::filesystem::path& run);

}  // namespace foretime::jobs
